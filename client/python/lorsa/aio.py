"""The clients of lorsad for asyncio; see lorsa.client for their twins."""

from lorsa.client.asynchronous import ActivationSets, Checkpoint, Client, Job, Sweep

__all__ = ["ActivationSets", "Checkpoint", "Client", "Job", "Sweep"]
