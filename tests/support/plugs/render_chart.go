// Renders the templates of a chart with the engine that Helm has, Go's text/template, and those of Helm's functions that
// this chart calls: where no helm is installed, the tests still see what the chart makes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

func main() {
	values, chart := map[string]any{}, template.New("chart").Option("missingkey=zero")
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		panic(err)
	}
	chart.Funcs(template.FuncMap{
		"upper": strings.ToUpper,
		"list":  func(items ...any) []any { return items },
		"quote": func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"toYaml": func(value any) string { // JSON is YAML
			text, _ := json.Marshal(value)
			return string(text)
		},
		"nindent": func(spaces int, text string) string {
			indent := "\n" + strings.Repeat(" ", spaces)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"default": func(other, value any) any {
			if value == nil || value == "" || value == 0.0 {
				return other
			}
			return value
		},
		"include": func(name string, value any) (string, error) {
			var out strings.Builder
			err := chart.ExecuteTemplate(&out, name, value)
			return out.String(), err
		},
	})
	template.Must(chart.ParseGlob(filepath.Join(os.Args[1], "templates", "*")))
	for _, name := range os.Args[2:] {
		fmt.Println("---")
		if err := chart.ExecuteTemplate(os.Stdout, name, values); err != nil {
			panic(err)
		}
	}
}
