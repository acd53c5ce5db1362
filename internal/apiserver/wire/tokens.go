package wire

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apiserver/pkg/authentication/user"
)

// token serves the subresource "token" of a ServiceAccount, whose kind is in another group.
func (c *call) token(u user.Info) {
	if c.r.Method != http.MethodPost {
		c.fail(unrouted(http.StatusMethodNotAllowed))
		return
	}
	if err := c.createToken(u); err != nil {
		c.fail(err)
	}
}

func (c *call) createToken(u user.Info) error {
	var o metav1.CreateOptions
	o.Kind = "CreateOptions"
	if err := params(c.r.URL.Query(), &o, metavalidation.ValidateCreateOptions); err != nil {
		return err
	}
	r := &authenticationv1.TokenRequest{}
	if err := c.decode(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), r, o.FieldValidation); err != nil {
		return err
	}
	if err := c.inPlace(r.Namespace); err != nil {
		return err
	}
	out, err := c.s.c.Verbs.CreateToken(c.r.Context(), u, c.info.ref(), r, c.writer(o.DryRun, o.FieldManager))
	if err != nil {
		return err
	}
	c.object(http.StatusCreated, out, nil)
	return nil
}
