{{- define "operator.name" -}}
{{- if contains "logherd-operator" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-logherd-operator" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "operator.selector" -}}
app.kubernetes.io/name: logherd-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "operator.image" -}}
{{- $repository := .Values.image.repository -}}
{{- if .Values.image.registry -}}{{- $repository = printf "%s/%s" .Values.image.registry $repository -}}{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "operator.namespaces" -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{- /* What the operator may do where the groups are. `kind` of the rules: a Role for each namespace, or a ClusterRole. */ -}}
{{- define "operator.rules" -}}
- apiGroups: [logherd.dev]
  resources: [brokergroups]
  verbs: [list, watch]
- apiGroups: [logherd.dev]
  resources: [brokergroups/status]
  verbs: [patch]
- apiGroups: [logherd.dev]
  resources: [brokergroups/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, patch{{ if .Values.rbac.allowVolumeDelete }}, delete{{ end }}]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch, delete]
# Nobody can grant what they do not have: these are what the keeper of a leader's endpoint is granted, and the granting.
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, create, patch]
{{- end -}}
