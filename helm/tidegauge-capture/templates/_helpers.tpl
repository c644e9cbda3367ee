{{- define "capture.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Begins the name of all that is made. */}}
{{- define "capture.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}

{{- define "capture.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What is made of a volume of a node: called with (dict "root" $ "broker" BROKER "number" N). */}}
{{- define "capture.volume" -}}
{{ printf "%s-%v-%v" (include "capture.name" .root) (int .broker.id) .number }}
{{- end -}}

{{/* A Job that runs the command once. Called with (dict "root" $ "name" NAME "arguments" LIST "volumes" LIST "tries" N). */}}
{{- define "capture.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ printf "%s-%s" (include "capture.name" .root) .name }}
  labels: {{- include "capture.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  backoffLimit: {{ .tries }}
  activeDeadlineSeconds: {{ .root.Values.activeDeadlineSeconds }}
  # Exit code 2 is a mistake in the values, or log directories that are not what they say: no later try makes that good.
  podFailurePolicy:
    rules:
      - action: FailJob
        onExitCodes: {containerName: capture, operator: In, values: [2]}
  template:
    metadata:
      labels: {{- include "capture.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
        {{- toYaml .root.Values.securityContext | nindent 8 }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: capture
          image: {{ include "capture.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: {{- toYaml .arguments | nindent 12 }}
          {{- with .root.Values.extraEnv }}
          env: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .root.Values.extraEnvFrom }}
          envFrom: {{- toYaml . | nindent 12 }}
          {{- end }}
          resources: {{- toYaml .root.Values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range .volumes }}
            - {name: {{ .name }}, mountPath: /logs/{{ .name }}, readOnly: true}
            {{- end }}
            {{- if .root.Values.outClaim }}
            - {name: out, mountPath: /out}
            {{- end }}
            {{- with .root.Values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - {name: tmp, emptyDir: {}}
        {{- range .volumes }}
        # Mounted for reading by the container only: a file system that was not unmounted has to replay its journal first.
        - name: {{ .name }}
          persistentVolumeClaim: {claimName: {{ .claim }}}
        {{- end }}
        {{- with .root.Values.outClaim }}
        - name: out
          persistentVolumeClaim: {claimName: {{ . }}}
        {{- end }}
        {{- with .root.Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
