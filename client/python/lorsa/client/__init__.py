"""Clients of lorsad: jobs, activation sets, metrics and checkpoints.

lorsa.Client is for threads, lorsa.aio.Client its twin for asyncio; errors are in
lorsa.client.errors.
"""

from lorsa.client.blocking import ActivationSets, Checkpoint, Client, Job, Sweep
from lorsa.client.cursors import JobUpdate, Patience
from lorsa.client.metric_table import MetricTable
from lorsa.client.progress import show_progress
from lorsa.client.records import ResolvedJob

__all__ = [
    "ActivationSets",
    "Checkpoint",
    "Client",
    "Job",
    "JobUpdate",
    "MetricTable",
    "Patience",
    "ResolvedJob",
    "Sweep",
    "show_progress",
]
