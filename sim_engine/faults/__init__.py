"""What goes wrong with the remote tier and with transactions, on purpose."""
