{{- define "tidegauge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidegauge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "tidegauge.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change: what selectors go by. Called with (dict "root" $ "component" "console"). */}}
{{- define "tidegauge.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tidegauge.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "tidegauge.labels" -}}
{{ include "tidegauge.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tidegauge.podLabels" -}}
{{ include "tidegauge.labels" . }}
{{- with .root.Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tidegauge.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
{{- end -}}
{{- end -}}

{{- define "tidegauge.sparkServiceAccount" -}}
{{- default (printf "%s-spark" (include "tidegauge.fullname" .)) .Values.spark.serviceAccount.name -}}
{{- end -}}

{{- define "tidegauge.submitter" -}}
{{- default (printf "%s-submitter" (include "tidegauge.fullname" .)) .Values.spark.submitter.name -}}
{{- end -}}

{{- define "tidegauge.runsClaim" -}}
{{- default (printf "%s-runs" (include "tidegauge.fullname" .)) .Values.runs.existingClaim -}}
{{- end -}}

{{/* The store's address. Called with (dict "root" $ "console" true), where the console may have one of its own. */}}
{{- define "tidegauge.storeSecretRef" -}}
{{- $store := .root.Values.store -}}
{{- if and .console $store.console.existingSecret }}
name: {{ $store.console.existingSecret }}
key: {{ $store.console.existingSecretKey }}
{{- else if $store.existingSecret }}
name: {{ $store.existingSecret }}
key: {{ $store.existingSecretKey }}
{{- else }}
name: {{ include "tidegauge.fullname" .root }}-store
key: store-url
{{- end }}
{{- end -}}

{{/* Environment of every pod. Called as tidegauge.storeSecretRef is. */}}
{{- define "tidegauge.env" -}}
- name: TIDEGAUGE_STORE_URL
  valueFrom:
    secretKeyRef:
      {{- include "tidegauge.storeSecretRef" . | trim | nindent 6 }}
{{ include "tidegauge.envOfSpark" .root }}
{{- end -}}

{{/* What pods are told that have no use for the store. */}}
{{- define "tidegauge.envOfSpark" -}}
- name: TIDEGAUGE_HOME
  value: {{ .Values.runs.mountPath | quote }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tidegauge.consoleHosts" -}}
{{- $inside := printf "%s.%s" .name .root.Release.Namespace -}}
{{- $names := list .name $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside) -}}
{{- if .root.Values.console.ingress.enabled }}{{ $names = append $names .root.Values.console.ingress.host }}{{ end -}}
{{- with .root.Values.settings.TIDEGAUGE_CONSOLE_HOSTS }}{{ $names = append $names . }}{{ end -}}
{{- join " " $names -}}
{{- end -}}

{{- define "tidegauge.envFrom" -}}
- configMapRef:
    name: {{ include "tidegauge.fullname" . }}-settings
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A pod starts anew when its settings or the store's address in this chart have changed. */}}
{{- define "tidegauge.checksum" -}}
{{- printf "%s%s" (toJson .Values.settings) .Values.store.url | sha256sum -}}
{{- end -}}
