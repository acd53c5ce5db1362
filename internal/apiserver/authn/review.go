package authn

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// errUnknownToken comes before whatever else is wrong with a token: upstream's server compares each with the one of its own parts first.
var errUnknownToken = errors.New("invalid bearer token")

// TokenReview answers whose a token is, for those audiences or for the API server's.
func (a *Authenticator) TokenReview(ctx context.Context, _ user.Info, obj runtime.Object) (runtime.Object, error) {
	r := obj.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	audiences := authenticator.Audiences(r.Spec.Audiences)
	if len(audiences) == 0 {
		audiences = a.c.Audiences
	}
	// A request with the token and nothing else.
	show := (&http.Request{URL: &url.URL{}, Header: http.Header{"Authorization": {"Bearer " + r.Spec.Token}}}).WithContext(authenticator.WithAudiences(ctx, audiences))
	answer, ok, err := a.known.AuthenticateRequest(show)
	r.Status = authenticationv1.TokenReviewStatus{Authenticated: ok}
	if err != nil {
		r.Status.Error = utilerrors.NewAggregate([]error{errUnknownToken, err}).Error()
	}
	if answer == nil || !ok {
		return r, nil
	}
	if len(audiences) > 0 && len(audiences.Intersect(answer.Audiences)) == 0 {
		return nil, apierrors.NewInternalError(errors.New("error validating audiences"))
	}
	r.Status.User = UserInfo(answer.User)
	r.Status.Audiences = answer.Audiences
	return r, nil
}

// SelfSubjectReview tells a user who they are.
func (a *Authenticator) SelfSubjectReview(_ context.Context, u user.Info, _ runtime.Object) (runtime.Object, error) {
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: UserInfo(u)},
	}, nil
}

// UserInfo is a user in the form of API objects.
func UserInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}
