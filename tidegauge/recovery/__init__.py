"""Records saved from replicas that will be cut: read, told apart from what survives, written anew."""
