{{- define "orchard.labels" -}}
app.kubernetes.io/name: orchard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "orchard.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "orchard.container" -}}
name: main
image: {{ .image | default .Values.image }}
imagePullPolicy: IfNotPresent
command: [sleep, "3600"]
resources:
  requests: {cpu: 10m, memory: 8Mi}
  limits: {cpu: 100m, memory: 32Mi}
{{- end -}}
