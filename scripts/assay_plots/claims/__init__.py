"""The claims of studies and the verdicts of reports: scripts/claims, and the page of a study."""
