"""What goes wrong with disks and transactions, on purpose."""
