"""What Assay's framework adapters cost: see scripts/lab/verify-overhead."""
