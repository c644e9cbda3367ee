"""The controller, and the metadata log in which it decides."""
