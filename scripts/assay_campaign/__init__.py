"""Campaigns: many runs under faults, each held to what docs/explanation/reliability.md promises."""
