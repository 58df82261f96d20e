"""All scenarios, in the order in which they run."""

from __future__ import annotations

from torture import damage, disks, fuzz, images, kills, kills_of_artifacts, long_runs, model, power, requests
from torture.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        damage.FLIPS,
        damage.CUTS,
        kills.CHANGES,
        kills.IMPORTS,
        kills.SYNC,
        kills_of_artifacts.MERGES,
        kills_of_artifacts.RECODE,
        kills_of_artifacts.ARTIFACTS,
        kills_of_artifacts.CHECKPOINTS,
        kills_of_artifacts.CACHE,
        model.SCENARIO,
        disks.SCENARIO,
        power.SCENARIO,
        images.SCENARIO,
        requests.IMAGES,
        requests.SCHEMA,
        requests.CLIENTS,
        long_runs.READING,
        long_runs.SERVING,
        *fuzz.SCENARIOS,
    )
}
