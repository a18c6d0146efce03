{{- define "group.name" -}}
{{- $name := .Values.name | default .Release.Name -}}
{{- if gt (len $name) 40 -}}
{{- fail (printf "the name %s is longer than 40 characters; set another with --set name=..." $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}
