// Package secrettokens fills the Secrets of type kubernetes.io/service-account-token: a token of the account that the annotation names,
// the authority's certificate and the namespace. Such a Secret goes with its account, and an account's list of Secrets forgets one that
// has gone.
package secrettokens

import (
	"bytes"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is the account that a Secret says it is of.
func Owner(s *v1.Secret) (name string, uid types.UID) {
	return s.Annotations[v1.ServiceAccountNameKey], types.UID(s.Annotations[v1.ServiceAccountUIDKey])
}

// Orphan says that a Secret's account is not there, nil, or is another of its name.
func Orphan(s *v1.Secret, account *v1.ServiceAccount) bool {
	_, uid := Owner(s)
	return account == nil || uid != "" && uid != account.UID
}

// Complete says that nothing is missing in a Secret.
func Complete(s *v1.Secret, ca []byte) bool {
	return bytes.Equal(s.Data[v1.ServiceAccountRootCAKey], ca) && len(s.Data[v1.ServiceAccountNamespaceKey]) > 0 && len(s.Data[v1.ServiceAccountTokenKey]) > 0
}

// Fill puts what is missing into a Secret of the account.
func Fill(s *v1.Secret, account *v1.ServiceAccount, ca []byte, sign func(*v1.ServiceAccount, *v1.Secret) (string, error)) error {
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Data[v1.ServiceAccountRootCAKey] = ca
	if len(s.Data[v1.ServiceAccountNamespaceKey]) == 0 {
		s.Data[v1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	}
	if len(s.Data[v1.ServiceAccountTokenKey]) == 0 {
		token, err := sign(account, s)
		if err != nil {
			return err
		}
		s.Data[v1.ServiceAccountTokenKey] = []byte(token)
	}
	s.Annotations[v1.ServiceAccountNameKey], s.Annotations[v1.ServiceAccountUIDKey] = account.Name, string(account.UID)
	return nil
}

// Unlist takes a Secret from an account's list.
func Unlist(account *v1.ServiceAccount, secret string) (changed bool) {
	n := len(account.Secrets)
	account.Secrets = slices.DeleteFunc(account.Secrets, func(r v1.ObjectReference) bool { return r.Name == secret })
	return len(account.Secrets) != n
}
