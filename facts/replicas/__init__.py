"""One replica, and the replicas of a partition side by side: epochs, divergence, commitment, who speaks for them."""
