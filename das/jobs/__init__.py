"""What puts several runs or estimates beside each other."""
