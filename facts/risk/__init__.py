"""What is lost, what will be, and what the failure of a broker or a rack would cost."""
