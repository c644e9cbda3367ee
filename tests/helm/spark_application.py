"""What the kubeflow Spark operator accepts of what the chart makes: fields and types of its API v1beta2.

In: a SparkApplication or ScheduledSparkApplication. Out: what is wrong with it, a line each. Only fields that the chart
uses are here, so that a misspelt one is noticed; all were held against the operator's own resource definitions.
"""

from typing import Any, Final

import jsonschema

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_ANY_OBJECT: Final = {"type": "object"}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_POD: Final = {
    "cores": {"type": "integer", "minimum": 1},
    "memory": _TEXT,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "serviceAccount": _TEXT,
    "env": _list({"type": "object", "required": ["name"]}),
    "envFrom": _list(_ANY_OBJECT),
    "podSecurityContext": _ANY_OBJECT,
    "securityContext": _ANY_OBJECT,
    "volumeMounts": _list(_object(("name", "mountPath"), name=_TEXT, mountPath=_TEXT, readOnly={"type": "boolean"})),
}
_APPLICATION: Final = _object(
    ("driver", "executor", "mainApplicationFile", "sparkVersion", "type"),
    type={"enum": ["Java", "Python", "Scala", "R"]},
    pythonVersion={"enum": ["2", "3"]},
    mode={"enum": ["cluster", "client"]},
    sparkVersion=_TEXT,
    image=_TEXT,
    imagePullPolicy=_TEXT,
    imagePullSecrets=_list(_TEXT),
    mainApplicationFile=_TEXT,
    arguments=_list(_TEXT),
    sparkConf=_TEXTS,
    restartPolicy=_object(("type",), type={"enum": ["Never", "Always", "OnFailure"]}),
    timeToLiveSeconds=_COUNT,
    volumes=_list({"type": "object", "required": ["name"]}),
    driver=_object(**_POD),
    executor=_object(**_POD, instances={"type": "integer", "minimum": 1}),
)
_SCHEDULED: Final = _object(
    ("schedule", "template"),
    schedule=_TEXT,
    template=_APPLICATION,
    suspend={"type": "boolean"},
    concurrencyPolicy={"enum": ["Allow", "Forbid", "Replace"]},
    successfulRunHistoryLimit=_COUNT,
    failedRunHistoryLimit=_COUNT,
)
_SPECS: Final = {"SparkApplication": _APPLICATION, "ScheduledSparkApplication": _SCHEDULED}


def problems_of(document: dict[str, Any]) -> list[str]:
    """What the operator would not take."""
    schema = _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "sparkoperator.k8s.io/v1beta2"},
        kind={"enum": list(_SPECS)},
        metadata=_ANY_OBJECT,
        spec=_SPECS[document["kind"]],
    )
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]
