"""Campaigns: many runs under faults, each held to what docs/reliability.md promises."""
