package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
)

// handling is what a pod failure policy says of a failed pod: by default its failure counts.
type handling struct {
	action  batchv1.PodFailurePolicyAction // of the rule that matched; "" for none
	failJob string                         // why the Job fails; "" when it does not
}

func (h handling) counts() bool { return h.action != batchv1.PodFailurePolicyActionIgnore }

// handle finds the first rule that matches a failed pod. Actions that are not known are no rules.
func handle(policy *batchv1.PodFailurePolicy, pod *v1.Pod) handling {
	if policy == nil {
		return handling{}
	}
	for i := range policy.Rules {
		r := &policy.Rules[i]
		why := ""
		if r.OnExitCodes != nil {
			if c := exited(pod, r.OnExitCodes); c != nil {
				why = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v matching %v rule at index %d",
					c.Name, pod.Namespace, pod.Name, c.State.Terminated.ExitCode, r.Action, i)
			}
		} else if c := has(pod, r.OnPodConditions); c != "" {
			why = fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d", pod.Namespace, pod.Name, c, r.Action, i)
		}
		if why == "" {
			continue
		}
		switch r.Action {
		case batchv1.PodFailurePolicyActionFailJob:
			return handling{r.Action, why}
		case batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount:
			return handling{action: r.Action}
		}
	}
	return handling{}
}

// exited is the first container that ended with a code that the rule is about.
func exited(pod *v1.Pod, r *batchv1.PodFailurePolicyOnExitCodesRequirement) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 || r.ContainerName != nil && *r.ContainerName != c.Name {
				continue
			}
			in := slices.Contains(r.Values, c.State.Terminated.ExitCode)
			if in && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn || !in && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn {
				return c
			}
		}
	}
	return nil
}

// has is the first of the pod's conditions that is one of the patterns.
func has(pod *v1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) v1.PodConditionType {
	for _, c := range pod.Status.Conditions {
		for _, p := range patterns {
			if c.Type == p.Type && c.Status == p.Status {
				return c.Type
			}
		}
	}
	return ""
}

// succeeds finds the first rule of a success policy that the completed indexes fulfil.
func succeeds(policy *batchv1.SuccessPolicy, completions int, done indexes) (message string, ok bool) {
	if policy == nil || len(done) == 0 {
		return "", false
	}
	for i, r := range policy.Rules {
		have, want := done.total(), completions
		if r.SucceededIndexes != nil {
			of := parseIndexes(*r.SucceededIndexes, completions)
			if len(of) == 0 {
				continue
			}
			have, want = of.common(done), of.total()
		} else if r.SucceededCount == nil {
			continue
		}
		if r.SucceededCount != nil {
			want = min(want, int(*r.SucceededCount))
		}
		if have >= want {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
