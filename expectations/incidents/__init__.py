"""Incidents: breaches, losses and risks of one snapshot that have one cause and one time, as one."""
