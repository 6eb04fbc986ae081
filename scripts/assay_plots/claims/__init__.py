"""What studies claim, and what reports say of it: scripts/claims, and the page of a study."""
