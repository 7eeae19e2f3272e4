{{- define "remesh.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "remesh.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "remesh.name" .) .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "remesh.name" .) | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* The two below take (dict "root" . "component" "server"); the component may be left out. */}}
{{- define "remesh.selector" -}}
app.kubernetes.io/name: {{ include "remesh.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "remesh.labels" -}}
{{ include "remesh.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Without versions: a chart that changes nothing else restarts no pod. */}}
{{- define "remesh.podLabels" -}}
{{ include "remesh.selector" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "remesh.image" -}}
{{- $name := .Values.image.repository -}}
{{- with .Values.image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "remesh.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "remesh.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{- define "remesh.joinTokenSecret" -}}
{{ .Values.joinToken.existingSecret | default (printf "%s-join-token" (include "remesh.fullname" .)) }}
{{- end }}

{{- define "remesh.serverAddress" -}}
{{ include "remesh.fullname" . }}-server.{{ .Release.Namespace }}.svc:{{ .Values.server.service.port }}
{{- end }}

{{/* What both pods begin with. */}}
{{- define "remesh.pod" -}}
serviceAccountName: {{ include "remesh.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A container's rights: none. */}}
{{- define "remesh.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "remesh.tls" -}}
{{- if ne .Values.tls.mode "none" }}true{{ end }}
{{- end }}

{{/* The certificate's volume of one side, server, worker or client: (dict "root" . "side" "server" "secret" its existingSecret "files" its
volume). Empty: that side has none. */}}
{{- define "remesh.tls.volume" -}}
{{- $tls := .root.Values.tls -}}
{{- $secret := "" -}}
{{- if eq $tls.mode "existingSecret" }}{{ $secret = .secret }}{{ end -}}
{{- if eq $tls.mode "certManager" }}{{ $secret = printf "%s-%s-tls" (include "remesh.fullname" .root) .side }}{{ end -}}
{{- if $secret -}}
projected:
  # Keys are for the pod's group alone.
  defaultMode: 0440
  sources:
  - secret:
      name: {{ $secret }}
      items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
      {{- if not $tls.caConfigMap }}
      - {key: ca.crt, path: ca.crt}
      {{- end }}
  {{- with $tls.caConfigMap }}
  - configMap: {name: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
  {{- end }}
{{- else if eq $tls.mode "files" -}}
{{- with .files }}{{ toYaml . }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Fails when the mode lacks what it needs; otherwise pods would wait without end for what was not set. */}}
{{- define "remesh.tls.check" -}}
{{- if eq .Values.tls.mode "existingSecret" -}}
{{- if not (and .Values.tls.existingSecret.server .Values.tls.existingSecret.worker) -}}
{{- fail "tls.existingSecret: server and worker must name Secrets with tls.mode existingSecret" -}}
{{- end -}}
{{- else if eq .Values.tls.mode "certManager" -}}
{{- if not .Values.tls.certManager.issuerRef.name -}}
{{- fail "tls.certManager.issuerRef.name: must name an issuer with tls.mode certManager" -}}
{{- end -}}
{{- else if eq .Values.tls.mode "files" -}}
{{- if not (and .Values.tls.files.server .Values.tls.files.worker) -}}
{{- fail "tls.files: server and worker must be volumes with tls.mode files" -}}
{{- end -}}
{{- if .Values.tls.caConfigMap -}}
{{- fail "tls.caConfigMap: has no effect with tls.mode files, whose volumes hold ca.crt" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "remesh.server.config" -}}
{{- with .Values.server.config }}
{{- toYaml . }}
{{ end -}}
listen_address: "0.0.0.0:7070"
metrics_address: "0.0.0.0:{{ .Values.server.metricsPort }}"
journal_path: /var/lib/remesh/journal.db
join_token_file: /etc/remesh/join/tokens
{{- if include "remesh.tls" . }}
tls_certificate_file: /etc/remesh-tls/tls.crt
tls_key_file: /etc/remesh-tls/tls.key
tls_client_ca_file: /etc/remesh-tls/ca.crt
tls_trust_domain: {{ .Values.tls.trustDomain | quote }}
{{- end }}
{{- end }}

{{/* What the workers have in common; a node's file adds its name and ids. */}}
{{- define "remesh.worker.config" -}}
{{- with .Values.worker.config }}
{{- toYaml . }}
{{ end -}}
server_address: {{ include "remesh.serverAddress" . }}
join_token_file: /etc/remesh/join/tokens
buffer_directory: /dev/shm/remesh
memory_limit_bytes: {{ .Values.worker.bufferGiB }}GiB
socket_path: /run/remesh/worker.sock
metrics_address: "0.0.0.0:{{ .Values.worker.metricsPort }}"
{{- if .Values.worker.gpu.enabled }}
keeper_socket: /run/remesh/keeper.sock
{{- end }}
{{- if include "remesh.tls" . }}
tls_ca_file: /etc/remesh-tls/ca.crt
tls_certificate_file: /etc/remesh-tls/tls.crt
tls_key_file: /etc/remesh-tls/tls.key
{{- with .Values.tls.serverName }}
tls_server_name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails when two nodes would share a device id. */}}
{{- define "remesh.checkDeviceIds" -}}
{{- $devices := int .Values.worker.devices -}}
{{- $owner := dict -}}
{{- range $node, $first := .Values.worker.nodes -}}
{{- range untilStep (int $first) (int (add $first $devices)) 1 -}}
{{- $id := toString . -}}
{{- if hasKey $owner $id -}}
{{- fail (printf "worker.nodes: %s and %s would share device id %s: nodes have worker.devices (%d) ids each, from their first" (get $owner $id) $node $id $devices) -}}
{{- end -}}
{{- $_ := set $owner $id $node -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "remesh.worker.nodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    {{- range $node, $_ := .Values.worker.nodes }}
    - matchFields: [{key: metadata.name, operator: In, values: [{{ $node | quote }}]}]
    {{- end }}
{{- end }}

{{/* An init container: the kubelet makes hostPath folders root's, and fsGroup does not touch them. (dict "root" . "folders" volume -> path) */}}
{{- define "remesh.folders" -}}
name: folders
image: {{ include "remesh.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [sh, -ec, 'for folder in {{ .folders | values | sortAlpha | join " " }}; do chown 65532:{{ .root.Values.worker.gid }} "$folder"; chmod 2750 "$folder"; done']
resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 100m, memory: 64Mi}}
securityContext:
  runAsUser: 0
  runAsNonRoot: false
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL], add: [CHOWN, FOWNER, DAC_OVERRIDE]}
volumeMounts:
{{- range $volume, $path := .folders }}
- {name: {{ $volume }}, mountPath: {{ $path }}}
{{- end }}
{{- end }}
