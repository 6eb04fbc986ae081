"""The judge of Assay's framework adapters: see scripts/lab/verify-overhead."""
