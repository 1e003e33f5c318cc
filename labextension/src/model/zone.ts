/** Wall times in an IANA zone, as forms write them (2027-03-28T02:30), and the instants they mean. */

const parts = new Map<string, Intl.DateTimeFormat>();

function formatter(zone: string): Intl.DateTimeFormat {
  let found = parts.get(zone);
  if (!found) {
    found = new Intl.DateTimeFormat('en-CA', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit'
    });
    parts.set(zone, found);
  }
  return found;
}

export function isZone(zone: string): boolean {
  try {
    formatter(zone);
    return true;
  } catch {
    return false;
  }
}

/** The wall time of an instant: 2027-03-28T03:00. */
export function wall(atMs: number, zone: string): string {
  const found = new Map(formatter(zone).formatToParts(atMs).map(part => [part.type, part.value]));
  const of = (type: Intl.DateTimeFormatPartTypes) => found.get(type) ?? '';
  return `${of('year')}-${of('month')}-${of('day')}T${of('hour')}:${of('minute')}`;
}

/** The instant of a wall time; the first of two, and the first after a gap. null: no time at all. */
export function instantOf(text: string, zone: string): number | null {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}))?$/.exec(text.trim());
  const asUtc = match ? Date.parse(`${match[1]}T${match[2] ?? '00:00'}Z`) : NaN;
  if (Number.isNaN(asUtc) || !isZone(zone)) {
    return null;
  }
  const offsetAt = (atMs: number) => Date.parse(`${wall(atMs, zone)}Z`) - Math.floor(atMs / 60_000) * 60_000;
  const before = asUtc - offsetAt(asUtc - 86_400_000);
  const after = asUtc - offsetAt(asUtc + 86_400_000);
  const wanted = new Date(asUtc).toISOString().slice(0, 16);
  const fits = [before, after].filter(atMs => wall(atMs, zone) === wanted);
  return fits.length ? Math.min(...fits) : before;
}

/** The zones that this browser knows, the given one first if it is not among them. */
export function zones(also: string): string[] {
  const known = ['UTC', ...Intl.supportedValuesOf('timeZone').filter(zone => zone !== 'UTC')];
  return known.includes(also) || !also ? known : [also, ...known];
}

export function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}
