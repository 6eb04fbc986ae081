"""Pictures of Assay's reports, and one page with all of them: run by scripts/plot."""
