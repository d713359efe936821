"""What is published, a folder for each: counts over a tree, the DHC, the Detailed DHC, the S-DHC, and
measurements of another publisher. Each rests on the core; docs/reference/architecture.md says which rests on
another."""
