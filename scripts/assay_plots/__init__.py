"""Pictures of Assay's reports, and one page that holds them all: run by scripts/plot."""
