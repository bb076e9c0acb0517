{{- /* What a pod of any role is; of a dictionary with the name of its component. */ -}}
{{- define "labels" -}}
app.kubernetes.io/name: neardup
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- define "restricted" -}}
automountServiceAccountToken: false
# Kubernetes derives variables from services. Here they begin with NEARDUP_, and workers refuse unknown settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end }}
{{- define "locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
{{- define "probe" -}}
httpGet:
  path: {{ index . 0 }}
  port: {{ index . 1 }}
{{- end }}
