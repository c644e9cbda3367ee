"""The active controller at work, and what every node does with its copy of the metadata log."""
