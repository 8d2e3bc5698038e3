"""Sends a job's metrics to experiment trackers (docs/trackers.md): `lorsa-track`."""
