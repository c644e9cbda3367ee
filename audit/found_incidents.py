"""What a run found, put together as incidents.

In: the breaches of one snapshot, its facts, and where it is. Out: the report's `incidents`. Of facts only those rows
are read that incidents are made of: of partitions with an election that may have given records up, and of groups that
had read what is lost.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

import pyarrow.compute as pc

from tidegauge.derivation.fact_files import read_relation, relation_at
from tidegauge.expectations.incidents.elections import GAVE_RECORDS_UP, elections_on_record
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Election, Found, ToldIncident
from tidegauge.expectations.incidents.plan import Scene, planned
from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import LOSSES, CommittedOffsetRow, LossRow, PartitionChangeRow, RiskRow
from tidegauge.snapshots.location import Location


def incidents_told(cluster: str, breaches: Sequence[Breach], facts: Location, scene: Scene) -> list[ToldIncident]:
    """The incidents of one snapshot, the worst first, as a report has them."""
    now = relation_at(facts, "risks").to_table(filter=pc.field("failure") == "now")
    had_read = relation_at(facts, "committed_offsets").to_table(filter=pc.field("lost_from_offset").is_valid())
    found = Found(
        cluster=cluster,
        breaches=breaches,
        losses=cast(list[LossRow], read_relation(facts, LOSSES.name).to_pylist()),
        risks=cast(list[RiskRow], now.to_pylist()),
        elections=_elections(facts),
        committed_offsets=cast(list[CommittedOffsetRow], had_read.to_pylist()),
    )
    return [cast(ToldIncident, asdict(planned(incident, found, scene))) for incident in incidents_of(found)]


def _elections(facts: Location) -> list[Election]:
    changes = relation_at(facts, "partition_changes")
    topics = changes.to_table(columns=["topic"], filter=pc.field("election").isin(GAVE_RECORDS_UP))["topic"]
    of_them = changes.to_table(filter=pc.field("topic").isin(topics.unique()))
    return elections_on_record(cast(list[PartitionChangeRow], of_them.to_pylist()))
