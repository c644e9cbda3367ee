"""Where columns of a table lead: the column, what the link says, its address."""

from typing import Final

TO_CLUSTER: Final = (
    "cluster",
    "Open the cluster",
    "/d/tidegauge-cluster?var-cluster=${__data.fields.cluster}&var-datasource=${datasource}",
)
# The console is where the reader's choice `console` says; without one the links lead nowhere.
TO_INCIDENT: Final = (
    "incident_id",
    "Open the incident",
    "${console}/clusters/${__data.fields.cluster}/incidents/${__data.fields.incident_id}",
)
TO_BREACH: Final = (
    "breach_id",
    "Open the argument and its runbook",
    "${console}/clusters/${__data.fields.cluster}/breaches/${__data.fields.breach_id}",
)
TO_PARTITION: Final = (
    "partition",
    "Open the partition",
    "/d/tidegauge-partition?var-cluster=${cluster:queryparam}&var-topic=${__data.fields.topic}"
    "&var-partition=${__data.fields.partition}&var-datasource=${datasource}",
)
