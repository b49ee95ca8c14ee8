"""Algorithm 1 and the top-up rule, transcribed naively: dense matrices, K x d as in the paper, no shortcut, no shared
code.

Never optimise this file. It imports only math and numpy, so that it can share no mistake with the package; a test
enforces it.
"""

import math

import numpy as np

# ------------------------------------------------------------------------------------------------------------- the loss


def margin(s, y):
    """m(y) = s_y - max_{k != y} s_k, and the k of the maximum (the lowest on a tie)."""
    others = [k for k in range(len(s)) if k != y]
    r = max(others, key=lambda k: (s[k], -k))
    return s[y] - s[r], r


def softmax(s):
    e = np.exp(s - np.max(s))
    return e / e.sum()


def loss_value(loss, s, y, kappa=0.5):
    K, star = len(s), int(np.argmax(s))
    if loss == "smooth hinge":
        m, _ = margin(s, y)
        if y != star:
            return 1 - 2 * m
        return (1 - m) ** 2 if m < 1 else 0.0
    if loss == "hinge":
        m, _ = margin(s, y)
        if y == star and m >= kappa:
            return 0.0
        return max(0.0, 1 - m)
    base = {"logistic base K": K, "logistic base 2": 2}[loss]
    return -math.log(softmax(s)[y]) / math.log(base)


def gap_map(loss, s):
    return min(1.0, loss_value(loss, s, int(np.argmax(s))))


def loss_gradient(loss, s, y, kappa=0.5):
    """The derivative by the scores."""
    K, star = len(s), int(np.argmax(s))
    e = np.eye(K)
    if loss == "smooth hinge":
        m, r = margin(s, y)
        if y != star:
            return -2 * (e[y] - e[r])
        return -2 * (1 - m) * (e[y] - e[r]) if m < 1 else np.zeros(K)
    if loss == "hinge":
        m, r = margin(s, y)
        if y == star and m >= kappa:
            return np.zeros(K)
        return -(e[y] - e[r])
    base = {"logistic base K": K, "logistic base 2": 2}[loss]
    return (softmax(s) - e[y]) / math.log(base)


# -------------------------------------------------------------------------------------------------------- the optimizer


def into_ball(W, radius):
    norm = math.sqrt((W**2).sum())
    return W * (radius / norm) if norm > radius else W


class Optimizer:
    """Keeps W (K x d) and every sum that any of the optimizers needs."""

    def __init__(self, kind, K, d, scale=1.0, rate=0.1, radius=math.inf):
        self.kind, self.scale, self.rate, self.radius = kind, scale, rate, radius
        self.W = np.zeros((K, d))
        self.squares = 0.0
        self.square_each = np.zeros((K, d))
        self.gradients = np.zeros((K, d))

    def take(self, G):
        if not G.any():
            return
        self.squares += float((G**2).sum())
        self.square_each += G**2
        self.gradients += G
        if self.kind == "adaptive ogd":
            self.W = self.W - self.scale / math.sqrt(1e-8 + self.squares) * G
        elif self.kind == "projected ogd":
            self.W = into_ball(self.W - math.sqrt(2) * self.radius / math.sqrt(self.squares) * G, self.radius)
        elif self.kind == "fixed ogd":
            self.W = into_ball(self.W - self.rate * G, self.radius)
        elif self.kind == "adagrad":
            self.W = self.W - self.rate * G / np.sqrt(1e-8 + self.square_each)
        elif self.kind == "scale-free ftrl":
            self.W = into_ball(-self.gradients / math.sqrt(self.squares), self.radius)
        else:
            raise ValueError(self.kind)


# ---------------------------------------------------------------------------------------------------------- exploration


def paper_distribution(A, S, star, a, gamma_t):
    """Line 10 of Algorithm 1; "uniform" is over all N actions."""
    N = A.shape[0]
    zeta = 1 if gamma_t <= a else 0
    p = np.zeros(N)
    p[star] += 1 - zeta * a - (1 - zeta) * gamma_t
    p += zeta * a / N
    for i in S:
        p[i] += (1 - zeta) * gamma_t / len(S)
    return p


def top_up_distribution(A, S, star, a, gamma_t):
    """Section 3 of the notes, with every class looked at."""
    N, K = A.shape
    rho = len(S)
    b = np.zeros(N)
    b[star] += 1 - a
    b[:K] += a / K
    o = [sum(b[i] for i in range(N) if A[i, y]) for y in range(K)]
    k = [sum(1 for i in S if A[i, y]) for y in range(K)]
    c = 0.0
    for y in range(K):
        if o[y] < gamma_t / rho:
            c = max(c, (gamma_t / rho - o[y]) / (k[y] / rho - o[y]))
    p = (1 - c) * b
    for i in S:
        p[i] += c / rho
    return p


DISTRIBUTIONS = {"paper": paper_distribution, "top-up": top_up_distribution}


# ---------------------------------------------------------------------------------------------------------- Algorithm 1


def draw(p, u):
    """The action of the inverse CDF in index order."""
    cumulative = 0.0
    for i in range(len(p)):
        cumulative += p[i]
        if u < cumulative:
            return i
    return max(i for i in range(len(p)) if p[i] > 0)


def graph_at(graph, t):
    """A graph is (A, S), a matrix and a dominating set; where it changes it is a list of those, one for each round."""
    return graph[t] if isinstance(graph, list) else graph


def gappletron(X, y, graph, loss, optimizer, exploration, gamma, draws):
    """Play all rounds; returns the actions, W (K x d), and a dictionary of totals. `draws` are the uniform numbers."""
    actions, blind = [], 0
    totals = {"mistakes": 0, "labels_seen": 0, "explored": 0, "rate_sum": 0.0, "loss_sum": 0.0}
    for t in range(len(y)):
        A, S = graph_at(graph, t)
        N = A.shape[0]
        Q = {i for i in range(N) if A[i].all()}
        s = optimizer.W @ X[t]
        star = int(np.argmax(s))
        if star in Q:
            gamma_t = 0.0
        else:
            blind += 1
            gamma_t = min(0.5, gamma / math.sqrt(blind))
        p = DISTRIBUTIONS[exploration](A, S, star, gap_map(loss, s), gamma_t)
        action = draw(p, draws[t])
        actions.append(action)
        totals["mistakes"] += action != y[t]
        totals["explored"] += action != star
        totals["rate_sum"] += gamma_t
        totals["loss_sum"] += loss_value(loss, s, y[t])
        if A[action, y[t]]:
            totals["labels_seen"] += 1
            seen = sum(p[i] for i in range(N) if A[i, y[t]])
            optimizer.take(np.outer(loss_gradient(loss, s, y[t]), X[t]) / seen)
    totals["blind_rounds"] = blind
    return actions, optimizer.W, totals


def decoded_logistic(X, y, graph, rate, gamma, horizon, draws):
    """Randomized decoding on logistic regression in base 2; returns the actions and -rate times the sum of v_t g_t."""
    actions, blind, V = [], 0, None
    for t in range(len(y)):
        A, S = graph_at(graph, t)
        N, K = A.shape
        if V is None:
            V = np.zeros((K, X.shape[1]))
        pace = min(0.5, gamma / math.sqrt(max(blind + 1, horizon)))
        s = pace * V @ X[t]
        q, star = softmax(s), int(np.argmax(s))
        b = np.zeros(N)
        b[:K] = [max(0.0, 1 + math.log2(q[k]) / 2) if k != star else 0.0 for k in range(K)]
        b[star] = 1 - b.sum()
        p = b
        if not A[star].all():
            blind += 1
            o = [sum(b[i] for i in range(N) if A[i, k]) for k in range(K)]
            shown = [sum(1 for i in S if A[i, k]) / len(S) for k in range(K)]
            wanted = pace / len(S)
            c = max([0.0] + [(wanted - o[k]) / (shown[k] - o[k]) for k in range(K) if o[k] < wanted])
            p = (1 - c) * b
            for i in S:
                p[i] += c / len(S)
        action = draw(p, draws[t])
        actions.append(action)
        if A[action, y[t]]:
            seen = sum(p[i] for i in range(N) if A[i, y[t]])
            V = V - rate * np.outer((q - np.eye(K)[y[t]]) / math.log(2), X[t]) / seen
    return actions, V


# -------------------------------------------------------------------------------------------------------------- Gaptron


def gaptron_gap(loss, s):
    K, star = len(s), int(np.argmax(s))
    m, _ = margin(s, star)
    if loss == "logistic":
        q = softmax(s)[star]
        return 1 - (q if q >= 0.5 else 0)
    if loss == "hinge":
        return max(0.0, 1 - max(1 if m > 1 / K else 0, m))
    return (1 - min(1, m)) ** 2


def gaptron_loss(loss, s, y):
    """The value and the gradient by the scores."""
    K, star = len(s), int(np.argmax(s))
    e = np.eye(K)
    m, r = margin(s, y)
    if loss == "logistic":
        return -math.log2(softmax(s)[y]), (softmax(s) - e[y]) / math.log(2)
    if loss == "hinge":
        if y == star and m > 1 / K:
            return 0.0, np.zeros(K)
        return max(0.0, 1 - m), -(e[y] - e[r])
    return loss_value("smooth hinge", s, y), loss_gradient("smooth hinge", s, y)


def gaptron(X, y, A, loss, rate, radius, gamma, draws):
    K = A.shape[1]
    W = np.zeros((K, X.shape[1]))
    actions = []
    for t in range(len(y)):
        s = W @ X[t]
        star = int(np.argmax(s))
        mix = max(gaptron_gap(loss, s), gamma)
        p = np.full(K, mix / K)
        p[star] += 1 - mix
        action = draw(p, draws[t])
        actions.append(action)
        if A[action, y[t]]:
            seen = sum(p[i] for i in range(K) if A[i, y[t]])
            W = into_ball(W - rate * np.outer(gaptron_loss(loss, s, y[t])[1], X[t]) / seen, radius)
    return actions, W


# --------------------------------------------------- full information, label efficient, context-free (notes, section 6)


def perceptron(X, y, K):
    W = np.zeros((K, X.shape[1]))
    actions = []
    for t in range(len(y)):
        yhat = int(np.argmax(W @ X[t]))
        actions.append(yhat)
        if yhat != y[t]:
            W[y[t]] += X[t]
            W[yhat] -= X[t]
    return actions, W


def passive_aggressive(X, y, K, C):
    W = np.zeros((K, X.shape[1]))
    actions = []
    for t in range(len(y)):
        s = W @ X[t]
        actions.append(int(np.argmax(s)))
        m, r = margin(s, y[t])
        if X[t].any():
            tau = min(C, max(0.0, 1 - m) / (2 * (X[t] ** 2).sum()))
            W[y[t]] += tau * X[t]
            W[r] -= tau * X[t]
    return actions, W


def label_efficient_perceptron(X, y, graph, b, draws):
    W = np.zeros((graph_at(graph, 0)[0].shape[1], X.shape[1]))
    actions = []
    for t in range(len(y)):
        A, _ = graph_at(graph, t)
        N, K = A.shape
        query = min(i for i in range(K, N) if A[i].all())
        s = W @ X[t]
        yhat = int(np.argmax(s))
        m, _ = margin(s, yhat)
        p = np.zeros(N)
        p[query] = b / (b + m)
        p[yhat] = 1 - p[query]
        action = draw(p, draws[t])
        actions.append(action)
        if action == query and yhat != y[t]:
            W[y[t]] += X[t]
            W[yhat] -= X[t]
    return actions, W


def second_order_perceptron(X, y, K, a, diagonal):
    """With z as a K x d matrix that is flattened, and a new solution of the whole system in every round."""
    d = X.shape[1]
    theta, A = np.zeros(K * d), a * np.eye(K * d)
    W = np.zeros((K, d))
    actions = []
    for t in range(len(y)):
        yhat = int(np.argmax(W @ X[t]))
        actions.append(yhat)
        if yhat != y[t]:
            z = np.outer(np.eye(K)[y[t]] - np.eye(K)[yhat], X[t]).ravel()
            theta = theta + z
            A = A + (np.diag(z**2) if diagonal else np.outer(z, z))
            W = np.linalg.solve(A, theta).reshape(K, d)
    return actions, W


def arow(X, y, K, r):
    """Returns the variances as well."""
    W, S = np.zeros((K, X.shape[1])), np.ones((K, X.shape[1]))
    actions = []
    for t in range(len(y)):
        x, s = X[t], W @ X[t]
        actions.append(int(np.argmax(s)))
        m, rival = margin(s, y[t])
        v = (x**2 * (S[y[t]] + S[rival])).sum()
        alpha = max(0.0, 1 - m) / (v + r)
        if alpha > 0:
            W[y[t]] += alpha * S[y[t]] * x
            W[rival] -= alpha * S[rival] * x
            for k in (y[t], rival):
                S[k] = 1 / (1 / S[k] + x**2 / r)
    return actions, W, S


def exp3_g(y, graph, gamma, eta, draws):
    """Returns the actions and the estimated losses of all N actions, added up."""
    total = np.zeros(graph_at(graph, 0)[0].shape[0])
    actions = []
    for t in range(len(y)):
        A, S = graph_at(graph, t)
        N, K = A.shape
        q = softmax(-eta * total)
        p = (1 - gamma) * q
        for i in S:
            p[i] += gamma / len(S)
        action = draw(p, draws[t])
        actions.append(action)
        for i in range(N):
            loss = 0.0 if i == y[t] else 1.0
            if i >= K:
                total[i] += loss
            elif A[action, i]:
                total[i] += loss / sum(p[j] for j in range(N) if A[j, i])
    return actions, total


# -------------------------------------------- bandit baselines: Banditron, Newtron, SOBA (notes, section 6); W is K x d


def uniform_mixture(K, yhat, g):
    """p = (1-g) e_yhat + g/K."""
    return np.array([(1 - g) * (k == yhat) + g / K for k in range(K)])


def banditron(X, y, K, gamma, draws):
    W = np.zeros((K, X.shape[1]))
    actions, losses = [], 0.0
    for t in range(len(y)):
        s = W @ X[t]
        yhat = int(np.argmax(s))
        p = uniform_mixture(K, yhat, gamma)
        action = draw(p, draws[t])
        actions.append(action)
        losses += max(0.0, 1 - margin(s, y[t])[0])
        W[yhat] = W[yhat] - X[t]
        if action == y[t]:
            W[y[t]] = W[y[t]] + X[t] / p[y[t]]
    return actions, W, {"rate_sum": gamma * len(y), "loss_sum": losses}


def banditron_iw(X, y, graph, gamma, draws):
    W = np.zeros((graph_at(graph, 0)[0].shape[1], X.shape[1]))
    actions, losses = [], 0.0
    for t in range(len(y)):
        A, S = graph_at(graph, t)
        N = A.shape[0]
        s = W @ X[t]
        yhat = int(np.argmax(s))
        p = np.zeros(N)
        p[yhat] = 1 - gamma
        for i in S:
            p[i] += gamma / len(S)
        action = draw(p, draws[t])
        actions.append(action)
        if yhat != y[t]:
            losses += 1 - margin(s, y[t])[0]
        if A[action, y[t]] and yhat != y[t]:
            observed = sum(p[i] for i in range(N) if A[i, y[t]])
            W[y[t]] = W[y[t]] + X[t] / observed
            W[yhat] = W[yhat] - X[t] / observed
    return actions, W, {"rate_sum": gamma * len(y), "loss_sum": losses}


def newtron(X, y, K, gamma, alpha, beta, D, diagonal, draws):
    """The whole Kd x Kd matrix, solved anew in every round; for PNewtron everything off its diagonal is dropped."""
    d = X.shape[1]
    A, b = np.eye(K * d) / D, np.zeros(K * d)
    W, outside = np.zeros((K, d)), 0
    actions, losses = [], 0.0
    for t in range(len(y)):
        q = softmax(alpha * (W @ X[t]))
        p = (1 - gamma) * q + gamma / K
        action = draw(p, draws[t])
        actions.append(action)
        losses += -math.log(q[y[t]]) / alpha
        e = np.eye(K)[action]
        if action == y[t]:
            G, k = np.outer((1 - q[action]) / p[action] * (1 / K - e), X[t]), p[action]
        else:
            G, k = np.outer(q[action] / p[action] * (e - 1 / K), X[t]), 1
        g = G.ravel()
        A = A + k * beta * (np.diag(g**2) if diagonal else np.outer(g, g))
        b = b + (1 - k * beta * (g @ W.ravel())) * g
        V = -np.linalg.solve(A, b)
        outside += math.sqrt((V**2).sum()) > D
        W = into_ball(V, D).reshape(K, d)
    return actions, W, {"rate_sum": gamma * len(y), "loss_sum": losses, "A": A, "outside": outside}


def soba(X, y, K, rate, a, diagonal, draws):
    """`rate` is gamma, or "adaptive". The whole Kd x Kd matrix, solved anew; SOBAdiag drops everything off its
    diagonal.
    """
    d = X.shape[1]
    A, theta = a * np.eye(K * d), np.zeros(K * d)
    W, M, Q = np.zeros((K, d)), 0.0, 0.0
    actions, losses, rates, updates, skipped = [], 0.0, 0.0, 0, 0
    for t in range(len(y)):
        x, s = X[t], W @ X[t]
        yhat = int(np.argmax(s))
        g = min(1.0, math.sqrt(K * (1 + Q) / (t + 1))) if rate == "adaptive" else rate
        rates += g
        p = uniform_mixture(K, yhat, g)
        action = draw(p, draws[t])
        actions.append(action)
        losses += max(0.0, 1 - margin(s, y[t])[0]) ** 2
        if action != y[t]:
            continue
        _, r = margin(s, y[t])
        delta = s[r] - s[y[t]]
        z = np.outer(np.eye(K)[y[t]] - np.eye(K)[r], x).ravel()
        z2 = z @ np.linalg.solve(A, z) / p[y[t]]
        m = (delta**2 + 2 * delta) / (p[y[t]] * (1 + z2))
        if yhat != y[t] or M + m >= 0:
            updates += 1
            M += m
            Q += z2 / (1 + z2)
            theta = theta + z / p[y[t]]
            A = A + (np.diag(z**2) if diagonal else np.outer(z, z)) / p[y[t]]
            W = np.linalg.solve(A, theta).reshape(K, d)
        else:
            skipped += 1
    return (
        actions,
        W,
        {
            "rate_sum": rates,
            "loss_sum": losses,
            "A": A,
            "theta": theta,
            "M": M,
            "Q": Q,
            "updates": updates,
            "skipped": skipped,
        },
    )


# ----------------------------------------------------- estimators: learning from all that is shown, and exploring by it


class ConfidenceWeighted:
    """W and S (both K x d), straight from the formulas of the optimizer's docstring."""

    def __init__(self, K, d, noise=0.03, shrink=0.3, retain=1.0, stored=np.float64):
        self.noise, self.shrink, self.retain, self.stored = noise, shrink, retain, stored
        self.W, self.S = np.zeros((K, d)), np.ones((K, d))
        self.squares = []

    def step(self, x, direction, weight=1.0):
        self.squares.append(float(x @ x))
        r = self.noise * np.mean(self.squares)
        for k in range(len(direction)):
            if direction[k] != 0 and x.any():
                S = np.where(x != 0, 1 / (1 + self.retain * (1 / self.S[k] - 1)), self.S[k])
                V = (x**2 * S).sum()  # of numbers that are not rounded yet
                S = self.stored(S)
                self.W[k] = self.stored(self.W[k] - weight * direction[k] * S * x / (r + weight * V))
                self.S[k] = self.stored(1 / (1 / S.astype(float) + self.shrink * weight * x**2 / r))

    def uncertainty(self, x, a, b):
        return ((self.S[a] + self.S[b]) / 2 * x**2).sum() / (x**2).sum() if x.any() else 1.0


def of_dominating_set(A, S, star, share):
    p = np.zeros(len(A))
    p[star] = 1 - share
    for i in S:
        p[i] += share / len(S)
    return p


def never(A, S, star, t):
    return of_dominating_set(A, S, star, 0.0)


def in_a_share(epsilon):
    return lambda A, S, star, t: of_dominating_set(A, S, star, 0.0 if A[star].all() else epsilon)


def at_first(rounds):
    return lambda A, S, star, t: of_dominating_set(A, S, star, 1.0 if t < rounds and not A[star].all() else 0.0)


def counts_mistakes(C):
    return set(np.unique(C)) == {0.0, 1.0}


def gaps_and_prices(C, q, star, sharpness):
    """d and e of the docstring of InverseGap."""
    N, K = C.shape
    if counts_mistakes(C):
        d = q[star] - q
        return np.abs(d), np.concatenate([np.abs(d), np.full(N - K, q[star])])
    c = C @ q / (C @ q)[:K].max()
    return np.abs(np.log((c[:K] + 1e-12) / (c[star] + 1e-12))) / (2 * sharpness), (c - c[star]) / max(0.05, c[star])


def inverse_gap(A, S, d, e, star, V, informed, scale, least=0.0):
    """The formula of the docstring; k runs over the classes that i shows and y* does not."""
    N, K = A.shape
    p = np.zeros(N)
    chosen = min([star, *range(K, N)], key=lambda i: e[i])
    if not A[chosen].all() and not A[star].all():
        second = closest(d, star)
        for i in S:
            hidden = [k for k in range(K) if A[i, k] and not A[star, k]]
            if i != chosen and hidden:
                gap = min(d[second if k == star else k] for k in hidden)
                wanted = V / (V + scale * informed / K * gap**2 * max(0.05, e[i]))
                p[i] = max(wanted, least / max(1, e[i]) ** 0.5) / len(S)
    p[chosen] = 1 - p.sum()
    return p


def closest(d, star):
    return min((k for k in range(len(d)) if k != star), key=lambda k: (d[k], k))


def expected_costs(C, q):
    """Of the classes, summed up one after the other: classes that are alike are tied."""
    return np.array([sum(C[k, y] * q[y] for y in range(len(q))) for k in range(len(q))])


def cheapest_class(C, q):
    """The class of least expected cost."""
    return int(np.argmin(expected_costs(C, q)))


def inverse_gaps(c, gamma):
    """p_a = 1/(level + gamma (c_a - min c)), with the level by bisection."""
    g = gamma * (c - c.min())
    low, high = 1.0, float(len(c))
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if (1 / (level + g)).sum() > 1 else (low, level)
    return 1 / (low + g) / (1 / (low + g)).sum()


def derivatives(loss, s, A, action, label):
    """Of what a round showed, by the scores; None where it showed nothing. `label` is None where it was not seen."""
    K = len(s)
    d = np.zeros(K)
    if loss == "partial likelihood":
        q = softmax(s)
        if label is not None:
            return q - np.eye(K)[label]
        Q = min(q[A[action]].sum(), 1 - 1e-6)
        return np.where(A[action], q, -q * Q / (1 - Q)) if A[action].any() else None
    for k in range(K):
        z = 1 if k == label else -1
        if A[action, k]:
            d[k] = {"squared hinge": -z * max(0.0, 1 - z * s[k]), "square": s[k] - z}[loss]
    return d if d.any() else None


def least_loss(fit):
    """The first that none of the following beats by more than a rounding error."""
    best = 0
    for b in range(len(fit)):
        best = b if fit[b] < fit[best] - 1e-12 else best
    return best


def estimator(X, y, graph, loss, rule, draws, optimizer):
    """`graph` is (A, S, C); a rule is a function of (A, S, star, t), or a name and its scale. The actions, and W."""
    actions, informed = [], 0
    sharpness = 2.0 ** (np.arange(-2, 9) / 2)
    fit = np.zeros(len(sharpness))
    for t in range(len(y)):
        A, S, C = graph_at(graph, t)
        s = optimizer.W @ X[t]
        b = sharpness[least_loss(fit)]
        if counts_mistakes(C):
            q = softmax(s) if loss == "partial likelihood" else (1 + s) / 2
            star = int(np.argmax(s))
        else:
            q = softmax(b * s)
            star = cheapest_class(C, q)
        if rule[0] == "inverse gap":
            d, e = gaps_and_prices(C, q, star, b)
            V = optimizer.uncertainty(X[t], star, closest(d, star))
            p = inverse_gap(A, S, d, e, star, V, informed, rule[1])
        elif rule[0] == "squarecb":
            p = inverse_gaps(1 - np.clip(q, 0, 1), rule[1] * math.sqrt(t + 1))
        else:
            p = rule[0](A, S, star, t)
        action = draw(p, draws[t])
        actions.append(action)
        informed += bool(A[action].any())
        seen = A[action, y[t]]
        costly = not counts_mistakes(C)
        if costly or t < 1024 or (t + 1) * (math.sqrt(5) - 1) / 2 % 1 < 1 / 8:
            shown = np.eye(len(s), dtype=bool)[y[t]] if seen else ~A[action]
            stake = C[: len(s), y[t]].max() if seen else C[action][~A[action]].max(initial=0.0)
            fit -= [stake * math.log(max(1e-9, softmax(each * s)[shown].sum())) for each in sharpness]
        derivative = derivatives(loss, s, A, action, y[t] if seen else None)
        if derivative is not None:
            optimizer.step(X[t], derivative)
    return actions, optimizer.W


def gappletron_with_rule(X, y, graph, loss, rule, optimizer, draws):
    """Algorithm 1 with a rule of (A, S, star, t) in place of its exploration."""
    A, S = graph
    actions = []
    for t in range(len(y)):
        s = optimizer.W @ X[t]
        p = rule(A, S, int(np.argmax(s)), t)
        action = draw(p, draws[t])
        actions.append(action)
        if A[action, y[t]]:
            optimizer.take(np.outer(loss_gradient(loss, s, y[t]), X[t]) / (p @ A[:, y[t]]))
    return actions, optimizer.W


# --------------------------------------------------------------------------------------- the guard, and its scorer


def smooth_hinge(s, y):
    return loss_value("smooth hinge", s, y)


def single(matrix):
    """Rounded to single floats."""
    return matrix.astype(np.float32).astype(float)


class Tracking:
    """Three scorers: AROW, AROW that forgets, AdaGrad; their weights by recent losses; restarts.

    Their matrices are single floats: every number is rounded when it is written.
    """

    def __init__(self, K, d, alarm=5.0, memory=math.inf):
        self.K, self.alarm, self.memory = K, alarm, memory
        self.slow, self.fast = (ConfidenceWeighted(K, d, retain=r, stored=np.float32) for r in (1.0, 0.9))
        self.W, self.squares = np.zeros((K, d)), np.zeros((K, d))
        self.losses = np.zeros(4)
        self.rounds, self.errors = np.zeros(4), np.zeros(4)
        self.excursion, self.contradiction, self.peak, self.changes = [], 0.0, 0.0, 0
        self.learned, self.rows = 0, []
        self.before, self.judged, self.returns = None, [], 0

    @property
    def suspicion(self):
        return (self.contradiction / (self.alarm + math.log(1 + len(self.rows)))) ** 2

    def members(self, x, given):
        scale = 1.0 if not self.rows or sum(self.rows) == 0 else math.sqrt(len(self.rows) / sum(self.rows))
        return [self.slow.W @ x, self.fast.W @ x, scale * (self.W @ x), np.zeros(self.K) if given is None else given]

    def shares(self, given):
        w = np.exp(-0.5 * (self.losses - self.losses[: 3 if given is None else 4].min()))
        if given is None:
            w[3] = 0
        return w / w.sum()

    def scores(self, x, given=None):
        w = self.shares(given)
        return sum(w[m] * np.clip(s, -1, 1) for m, s in enumerate(self.members(x, given)))

    def uncertainty(self, x, a, b, given=None):
        w = self.shares(given)[1]
        return (1 - w) * self.slow.uncertainty(x, a, b) + w * self.fast.uncertainty(x, a, b)

    def learn(self, x, A, action, label, given=None):  # noqa: PLR0912 - one step after the other, as in the docs
        """`label` is None where it was not seen. Whether it began anew."""
        K, found = self.K, self.members(x, given)
        restarted = False
        best = int(np.argmax(found[0]))
        if label is not None or A[action, best]:
            cut = np.clip(found[0], -1, 1)
            _, second = margin(found[0], best)
            place = min(3, int(2 * (cut[best] - cut[second])))
            error = best != label
            if error or self.contradiction > 0:
                overall = (sum(self.errors) + 16 * (1 - 1 / K)) / (sum(self.rounds) + 16)
                p0 = max(0.002, (self.errors[place] + 8 * overall) / (self.rounds[place] + 8))
                wrong = sum(was for _, was in self.excursion)
                p1 = min(0.95, max(2 * p0 + 0.2, (wrong + 1) / (len(self.excursion) + 4)))
                ratio = 1.0 if p0 >= 0.75 else p1 / p0 if error else (1 - p1) / (1 - p0)
                self.contradiction = max(0.0, self.contradiction + math.log(ratio))
                self.peak = max(self.peak, self.contradiction)
            self.excursion.append((place, error))
            if self.contradiction == 0:
                self.changes += self.peak >= 6
                if self.peak < 6:
                    for where, was in self.excursion:
                        self.rounds[where] += 1
                        self.errors[where] += was
                self.excursion, self.peak, self.judged = [], 0.0, []
            elif self.before is not None:
                old = int(np.argmax(self.before @ x))
                if label is not None or A[action, old]:
                    self.judged.append((old != label, error))
        if self.contradiction > self.alarm + math.log(1 + len(self.rows)):
            self.changes += 1
            wrong, present = np.sum(self.judged, axis=0) if self.judged else (0, 0)
            if len(self.judged) >= 3 and 4 * wrong <= len(self.judged) and 2 * wrong <= present:
                self.returns += 1
                self.slow.W, self.before = self.before, self.slow.W
                found[0] = self.slow.W @ x
                self.losses[0] = 0
            else:
                self.learned = 0
                restarted = True
                self.before = self.slow.W.copy()
                self.slow.W = single(0.3 * self.slow.W)
                self.slow.S[:] = 1
                self.rounds[:], self.errors[:] = 0, 0
                self.losses[[0, 2]] = self.losses[1]
            self.W = single(0.3 * self.W)
            self.squares[:] = 0
            self.excursion, self.contradiction, self.peak, self.judged = [], 0.0, 0.0, []
        self.rows.append(x @ x)
        z = np.array([1 if k == label else -1 for k in range(K)])
        steps = []
        for m, s in enumerate(found):
            if m < 3 or given is not None:
                short = np.where(A[action], np.maximum(0, 1 - z * s), 0)
                self.losses[m] = 0.99 * self.losses[m] + (np.minimum(2, short) ** 2).sum()
                steps.append(-z * short)
        if steps[0].any():
            self.slow.step(x, steps[0])
        if steps[1].any():
            self.fast.step(x, steps[1])
        g = np.outer(steps[2], x)
        squares = self.squares + g * g
        self.W = single(self.W - 0.5 * g / np.sqrt(1e-8 + squares))
        self.squares = single(squares)
        self.learned += 1
        if self.learned >= self.memory:
            restarted = True
            self.slow.S[:] = 1
            self.squares[:] = 0
            self.learned = 0
        return restarted


def guard_value(A, C, losses, s, p):
    """V(p) of the docstring of guard.py; the losses and stabilities include the costs."""
    found = []
    for y in range(A.shape[1]):
        P = p[A[:, y]].sum()
        found.append(p @ C[:, y] - losses[y] + (0.0 if s[y] == 0 else math.inf if P == 0 else s[y] / P))
    return max(found)


def least_where(f, low=0.0, high=1.0):
    """The least number with f <= 0, for an f that falls, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if f(middle) <= 0 else (middle, high)
    return high


def secured(A, C, S, losses, s, star, gamma, allowed, p):  # noqa: PLR0912 - a case for each kind of graph
    """The proposal p, changed as little as is needed for V <= C allowed, with the rule of each kind of graph."""
    N, K = A.shape
    top = C.max(axis=0)
    most = top.max() * allowed
    plain = all(C[i, y] == (0 if i == y else top[y]) for i in range(N) for y in range(K)) and (top > 0).all()
    p = p.copy()
    if plain and N == K and (np.eye(K, dtype=bool) == A).all():
        need = [
            least_where(lambda q, y=y: top[y] * (1 - q) - losses[y] + s[y] / max(q, 1e-300) - most) for y in range(K)
        ]
        others = [y for y in range(K) if y != star]
        for y in others:
            p[y] = max(p[y], need[y])
        room, needs = max(0.0, 1 - need[star]), sum(need[y] for y in others)
        total = p[others].sum()
        if total > room and total > needs:
            for y in others:
                p[y] = need[y] + max(0.0, (room - needs) / (total - needs)) * (p[y] - need[y])
        p[star] = max(0.0, 1 - p[others].sum())
        return p
    if plain and A.all():
        made = p.copy()
        for y in range(K):
            if y != star:
                made[y] = max(p[y], 1 - (losses[y] - s[y]) / top[y])
        made[star] = 0
        if made.sum() + max(0.0, 1 - (losses[star] - s[star]) / top[star]) <= 1 + 1e-9:
            made[star] = max(0.0, 1 - made.sum())
            return made
    if plain and (A.all(axis=1) == A.any(axis=1)).all() and not A[star].all():
        reveals = A.all(axis=1)
        seen = p[reveals].sum()
        low = max([s[y] / (most + losses[y] - top[y]) for y in range(K) if y != star and s[y] > 0], default=0.0)
        b = most + losses[star]
        roots = np.sqrt(max(0.0, b * b - 4 * top[star] * s[star]))
        low, high = max(low, (b - roots) / 2 / top[star]), min(1.0, (b + roots) / 2 / top[star])
        q = min(max(seen, low), max(low, high))
        made = np.where(reveals, p * (q / seen) if seen > 0 else 0.0, 0.0)
        if seen == 0:
            made[S[0]] = q
        made[star] = 1 - q
        return made
    if guard_value(A, C, losses, s, p) > most:
        q = min(1.0, max(gamma, losses[star] / top[star] if top[star] > 0 else 1.0))
        safe = np.zeros(N)
        safe[star] = 1 - q
        for i in S:
            safe[i] += q / len(S)
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            fits = guard_value(A, C, losses, s, (1 - middle) * p + middle * safe) <= most
            low, high = (low, middle) if fits else (middle, high)
        p = (1 - high) * p + high * safe
    return p


def guarded(X, y, graph, draws, given=None, kappa=0.01, c=1.0, scale=2.4, floor=0.1, alarm=5.0, learns=True):  # noqa: PLR0912 - a whole learner
    """`graph` is (A, S, C) or a list of them. The actions, the scorer, and (V, C a_t, p) of every round."""
    K, d = graph_at(graph, 0)[0].shape[1], X.shape[1]
    scorer = Tracking(K, d, alarm)
    sharpness = 2.0 ** (np.arange(-2, 9) / 2)
    fit = np.zeros(len(sharpness))
    Z, slope, own = np.zeros((K, d)), 0.0, 0.0
    lengths = []
    size = largest = blind = paid = informed = learned = phase = 0
    evidence, evidence_squared, errors, share = 0.0, 0.0, 0.0, 1.0
    actions, told = [], []
    for t in range(len(y)):
        A, S, C = graph_at(graph, t)
        excess = C - C[np.arange(K), np.arange(K)]
        top, x, g = excess.max(axis=0), X[t], None if given is None else given[t]
        b = scorer.scores(x, g)
        beta = sharpness[least_loss(fit)]
        plain = counts_mistakes(C)
        if plain:
            made = np.clip(b, -1, 1)
        else:
            cost = expected_costs(C, softmax(beta * b))
            relative = cost / (cost.max() or 1.0) + 1e-12
            made = np.maximum(-1, 1 - np.log(relative / relative.min()) / beta)
        rho = max(largest, len(S))
        trust = 1.0 if share else 1 / 8
        large = max(c, (2 if share else 3) * math.sqrt(rho))
        k, cc = (1 / rho, large) if phase % 2 == 1 else (min(kappa, 1 / rho), c)
        gamma = min(0.5, cc / math.sqrt(1 + blind))
        most = 2 * math.sqrt(np.mean(lengths)) if lengths else 0.0
        cut = x * (most / np.linalg.norm(x)) if 0 < most < np.linalg.norm(x) else x
        spread = trust * np.ptp(made) ** 2 + (0 if g is None else np.ptp(g) ** 2)
        now = max(size, top.max() * max(1e-12, 4 * (cut @ cut) + 2 * spread))
        eta = k * gamma / now
        gg = np.zeros(K) if g is None else g
        s = (share - eta * trust * slope) * made - eta * own * gg - eta * (Z @ cut)
        star = int(np.argmax(s))
        q = (1 + np.clip(s, -1, 1)) / 2 if plain else softmax(beta * b)
        gaps, prices = gaps_and_prices(C, q, star, beta)
        p = np.zeros(A.shape[0])
        p[star] = 1
        if not plain or not A[star].all():
            V = scorer.uncertainty(x, star, closest(gaps, star), g)
            w = scorer.shares(g)[1]
            n = informed - w * max(0, informed - 50 * K)
            changes = 0 if A[star, star] else scorer.changes
            least = min(0.5, max(floor * math.sqrt((1 + 24 * changes) / (1 + t)), scorer.suspicion))
            p = inverse_gap(A, S, gaps, prices, star, V, n, scale, least)
        loss, stability, others = np.zeros(K), np.zeros(K), np.zeros(K, int)
        for label in range(K):
            _, r = margin(s, label)
            others[label] = r if label == star else star
            loss[label] = top[label] * smooth_hinge(s, label)
            steep = np.abs(loss_gradient("smooth hinge", s, label)).max()
            o = others[label]
            square = steep**2 * (2 * (cut @ cut) + trust * (made[label] - made[o]) ** 2 + (gg[label] - gg[o]) ** 2)
            stability[label] = top[label] ** 2 * eta / 2 * square
        allowed = gamma
        if scorer.suspicion > 0 and not A[star, star]:
            allowed = max(gamma, min(1.0, 2 * cc * math.sqrt(1 + blind) - paid))
        p = secured(A, excess, S, loss, stability, star, gamma, allowed, p)
        value = guard_value(A, excess, loss, stability, p)
        blind += value > 1e-12 * top.max()
        paid += max(0.0, value) / top.max()
        size, largest = now, rho
        lengths.append(cut @ cut)
        action = draw(p, draws[t])
        actions.append(action)
        told.append((value, allowed * top.max(), p))
        seen = bool(A[action, y[t]])
        alone = s - (share - k * min(0.5, cc / math.sqrt(1 + blind)) / now * trust * slope) * made
        informed += bool(A[action].any())
        if seen:
            weight = top[y[t]] / p[A[:, y[t]]].sum()
            steep = np.abs(loss_gradient("smooth hinge", s, y[t])).max()
            o = others[y[t]]
            Z[o] += weight * steep * cut
            Z[y[t]] -= weight * steep * cut
            slope += weight * steep * (made[o] - made[y[t]])
            own += weight * steep * (gg[o] - gg[y[t]])
        best = int(np.argmax(made))
        shown = 0.0
        if A[action, best]:
            label = y[t] if seen else margin(made, best)[1]
            failure = (label != best) - 0.9 * (1 - 1 / K)
            errors += failure
            shown = p[A[:, best]].sum()
            if not learns:
                failure = smooth_hinge(made, label) - 0.97
        if not learns and phase % 2 == 1:
            shown = 0.0
            if seen:
                label, shown = y[t], p[A[:, y[t]]].sum()
                own_error = int(np.argmax(alone)) != label
                failure = max(smooth_hinge(made, label) - 0.97, (label != best) - 1.0 * own_error)
        if shown:
            failure *= top[label] / top.max() / shown
            failure = -failure if phase % 2 == 1 else failure
            evidence_squared += failure**2
            evidence = max(0.0, evidence + failure)
            if evidence == 0:
                evidence_squared = 0.0
            elif evidence > max(5 * 2**phase, 4 * math.sqrt(evidence_squared)):
                Z[:], slope, own, blind, paid, evidence, evidence_squared, size = 0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0
                share = 0.0 if errors >= 0 and not learns and phase % 2 == 0 else 1.0
                errors = 0.0
                phase += 1
        if not A[action].any():
            continue
        if learned == 0:
            fit = np.log(np.exp(2 * sharpness) + K - 1)
        learned += 1
        if not plain or learned <= 1024 or learned * (math.sqrt(5) - 1) / 2 % 1 < 1 / 8:
            shown = np.eye(K, dtype=bool)[y[t]] if seen else ~A[action]
            losses = [-math.log(max(1e-9, softmax(each * b)[shown].sum())) for each in sharpness]
            fit = 0.998 * fit + losses
        if scorer.learn(x, A, action, y[t] if seen else None, g):
            informed, learned, fit = 0, 0, np.zeros(len(sharpness))
    return actions, scorer, told
