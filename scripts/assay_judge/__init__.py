"""The judge of Assay's framework adapters: see scripts/verify-overhead."""
