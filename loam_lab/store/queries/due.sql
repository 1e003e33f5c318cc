-- What the scheduler asks: whose time has come, and whose comes next.

-- due_jobs --
SELECT {head} FROM jobs
 WHERE state = 'scheduled' AND run_at <= ?
 ORDER BY run_at
 LIMIT ?;

-- next_due --
SELECT min(run_at) FROM jobs WHERE state = 'scheduled';

-- expiring_jobs --
SELECT {head} FROM jobs
 WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'ready') AND expires_at <= ?
 ORDER BY expires_at
 LIMIT ?;

-- next_to_expire --
SELECT min(expires_at) FROM jobs WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'ready');

-- expired_jobs --
SELECT {head} FROM jobs
 WHERE state = 'running' AND lease_until < ?
 ORDER BY lease_until
 LIMIT ?;

-- next_expiry --
SELECT min(lease_until) FROM jobs WHERE state = 'running' AND lease_until IS NOT NULL;

-- leased_jobs --
SELECT {head} FROM jobs WHERE state = 'running' AND lease_until IS NOT NULL;

-- quieting_jobs --
SELECT {head} FROM jobs WHERE state = 'running' AND lease_until IS NULL;
