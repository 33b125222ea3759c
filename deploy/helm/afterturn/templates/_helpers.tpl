{{- define "afterturn.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "afterturn.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "afterturn.labels" -}}
{{ include "afterturn.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "afterturn.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "afterturn.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "afterturn.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* What every pod has but its containers; call with the root. */}}
{{- define "afterturn.pod" -}}
# A hook runs before the chart's own account is made.
serviceAccountName: {{ if and .hook .Values.serviceAccount.create }}default{{ else }}{{ include "afterturn.serviceAccount" . }}{{ end }}
automountServiceAccountToken: false
# Variables that Kubernetes makes for services would look like settings.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "afterturn.container" -}}
image: {{ include "afterturn.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Settings of every process; `owner` true adds the owner's URL. Call with (dict "root" $ "owner" false). */}}
{{- define "afterturn.environment" -}}
{{- $root := .root -}}
- {name: AFTERTURN_DATABASE__URL_FILE, value: /run/secrets/afterturn/{{ $root.Values.secret.urlKey }}}
- {name: AFTERTURN_DATABASE__OPERATOR_URL_FILE, value: /run/secrets/afterturn/{{ $root.Values.secret.operatorUrlKey }}}
- {name: AFTERTURN_BROKER__URL_FILE, value: /run/secrets/afterturn/{{ $root.Values.secret.brokerUrlKey }}}
{{- if .owner }}
- {name: AFTERTURN_DATABASE__OWNER_URL_FILE, value: /run/secrets/afterturn/{{ $root.Values.secret.ownerUrlKey }}}
{{- end }}
{{- range $name, $key := $root.Values.secret.more }}
- {name: {{ printf "AFTERTURN_%s_FILE" $name }}, value: /run/secrets/afterturn/{{ $key }}}
{{- end }}
{{- range $name, $value := $root.Values.settings }}
- {name: {{ printf "AFTERTURN_%s" $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- define "afterturn.mounts" -}}
- {name: secrets, mountPath: /run/secrets/afterturn, readOnly: true}
- {name: data, mountPath: /var/lib/afterturn}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tlsSecret }}
- {name: tls, mountPath: /etc/afterturn/tls, readOnly: true}
{{- end }}
{{- end }}

{{/* The Secret's keys that a process needs, as files, and folders for what it may lose; `token` is one more key. */}}
{{- define "afterturn.volumes" -}}
{{- $root := .root -}}
{{- $secret := $root.Values.secret -}}
- name: secrets
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    items:
      - {key: {{ $secret.urlKey }}, path: {{ $secret.urlKey }}}
      - {key: {{ $secret.operatorUrlKey }}, path: {{ $secret.operatorUrlKey }}}
      - {key: {{ $secret.brokerUrlKey }}, path: {{ $secret.brokerUrlKey }}}
      {{- if .owner }}
      - {key: {{ $secret.ownerUrlKey }}, path: {{ $secret.ownerUrlKey }}}
      {{- end }}
      {{- with .token }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
      {{- range $key := values $secret.more | uniq | sortAlpha }}
      - {key: {{ $key }}, path: {{ $key }}}
      {{- end }}
- {name: data, emptyDir: {sizeLimit: 1Gi}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- if $root.Values.tlsSecret }}
- {name: tls, secret: {secretName: {{ $root.Values.tlsSecret }}}}
{{- end }}
{{- end }}
