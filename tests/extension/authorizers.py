"""Authorizers that tests put before the routes."""

from jupyter_server.auth.authorizer import Authorizer
from jupyter_server.auth.identity import IdentityProvider, User


class ReadOnly(Authorizer):
    """Everybody may look, nobody may change."""

    def is_authorized(self, handler, user, action, resource):
        return action == "read"


class NoLoam(Authorizer):
    """Nobody may touch runs."""

    def is_authorized(self, handler, user, action, resource):
        return resource != "loam"


class Ada(IdentityProvider):
    """Whoever has the token is a person with a name, as under JupyterHub."""

    def generate_anonymous_user(self, handler):
        return User("ada@пример")
