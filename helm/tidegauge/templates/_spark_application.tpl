{{/* A SparkApplication's spec. Called with (dict "root" $ "main" "spark_jobs/job.py" "arguments" (list …) "publishes" true):
whether the driver needs the store. Executors never do. */}}
{{- define "tidegauge.sparkApplication" -}}
{{- $values := .root.Values -}}
type: Python
pythonVersion: "3"
mode: cluster
sparkVersion: {{ $values.spark.version | quote }}
image: {{ include "tidegauge.image" .root }}
imagePullPolicy: {{ $values.image.pullPolicy }}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {{ .name }}
  {{- end }}
{{- end }}
mainApplicationFile: local:///opt/tidegauge/{{ .main }}
arguments: {{- toYaml .arguments | nindent 2 }}
{{- with $values.spark.conf }}
sparkConf:
  {{- range $key, $value := . }}
  {{ $key | quote }}: {{ $value | toString | quote }}
  {{- end }}
{{- end }}
# A breach is no failure to try again, and what failed by chance is tried again by whoever scheduled it.
restartPolicy:
  type: Never
timeToLiveSeconds: {{ int64 $values.spark.timeToLiveSeconds }}
volumes:
  - name: runs
    persistentVolumeClaim:
      claimName: {{ include "tidegauge.runsClaim" .root }}
  {{- with $values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
driver:
  cores: {{ $values.spark.driver.cores }}
  memory: {{ $values.spark.driver.memory }}
  serviceAccount: {{ include "tidegauge.sparkServiceAccount" .root }}
  {{- include "tidegauge.sparkPod" (dict "root" .root "store" .publishes) | nindent 2 }}
executor:
  instances: {{ $values.spark.executor.instances }}
  cores: {{ $values.spark.executor.cores }}
  memory: {{ $values.spark.executor.memory }}
  {{- include "tidegauge.sparkPod" (dict "root" .root "store" false) | nindent 2 }}
{{- end -}}

{{/* What driver and executors have in common. */}}
{{- define "tidegauge.sparkPod" -}}
labels: {{- include "tidegauge.podLabels" (dict "root" .root "component" "spark") | nindent 2 }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .store }}
env: {{- include "tidegauge.env" (dict "root" .root "console" false) | nindent 2 }}
{{- else }}
env: {{- include "tidegauge.envOfSpark" .root | nindent 2 }}
{{- end }}
envFrom: {{- include "tidegauge.envFrom" .root | nindent 2 }}
podSecurityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
volumeMounts:
  - name: runs
    mountPath: {{ .root.Values.runs.mountPath }}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
