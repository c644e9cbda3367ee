{{/* The spec of a pod that runs one command and ends. Called with (dict "root" $ "component" "alerts" "arguments" (list …)
"resources" (dict …) "runs" true): whether it needs the run directories. */}}
{{- define "tidegauge.onceSpec" -}}
{{- $values := .root.Values -}}
restartPolicy: Never
automountServiceAccountToken: false
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml $values.podSecurityContext | nindent 2 }}
containers:
  - name: {{ .component }}
    image: {{ include "tidegauge.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{- toYaml .arguments | nindent 6 }}
    env:
      {{- include "tidegauge.env" (dict "root" .root "console" false) | nindent 6 }}
      {{- with .extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    envFrom: {{- include "tidegauge.envFrom" .root | nindent 6 }}
    securityContext: {{- toYaml $values.securityContext | nindent 6 }}
    resources: {{- toYaml .resources | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- if .runs }}
      - {name: runs, mountPath: {{ $values.runs.mountPath | quote }}}
      {{- end }}
      {{- with .extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
  {{- if .runs }}
  - name: runs
    persistentVolumeClaim: {claimName: {{ include "tidegauge.runsClaim" .root }}}
  {{- end }}
  {{- with .extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
