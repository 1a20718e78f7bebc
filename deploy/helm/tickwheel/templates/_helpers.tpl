{{- /* Names, labels, and the variables that every pod of the service has. */}}
{{- define "tickwheel.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tickwheel.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "tickwheel.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tickwheel.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tickwheel.selector" -}}
app.kubernetes.io/name: {{ include "tickwheel.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tickwheel.labels" -}}
{{ include "tickwheel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tickwheel.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "tickwheel.storeEnv" -}}
- {name: TICKWHEEL_STORE, value: {{ .Values.store | quote }}}
{{- if eq .Values.store "cassandra" }}
- {name: TICKWHEEL_QUEUE, value: kafka}
- {name: TICKWHEEL_CASSANDRA, value: {{ join "," .Values.cassandra.contactPoints | quote }}}
- {name: TICKWHEEL_KEYSPACE, value: {{ .Values.cassandra.keyspace | quote }}}
{{- with .Values.cassandra.datacenter }}
- {name: TICKWHEEL_CASSANDRA_DATACENTER, value: {{ . | quote }}}
{{- end }}
{{- with .Values.cassandra.rack }}
- {name: TICKWHEEL_CASSANDRA_RACK, value: {{ . | quote }}}
{{- end }}
- {name: TICKWHEEL_KAFKA, value: {{ join "," .Values.kafka.bootstrap | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: TICKWHEEL_{{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tickwheel.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tickwheel.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
