{{- define "group.name" -}}
{{- $name := .Values.name | default .Release.Name -}}
{{- if gt (len $name) 40 -}}
{{- fail (printf "the name %s is longer than 40 characters; set another with --set name=..." $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /* Where a client asks for routes: the group's own controllers, those of the group that it shares them with, or others. */ -}}
{{- define "group.nameServers" -}}
{{- $addresses := dig "nameService" "addresses" list .Values.spec -}}
{{- if $addresses -}}
{{- join ";" $addresses -}}
{{- else -}}
{{- dig "controllers" "ref" "name" (include "group.name" .) .Values.spec -}}-bootstrap:9876
{{- end -}}
{{- end -}}
