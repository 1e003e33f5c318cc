/** What the run prints, live: follow, search, only what is on screen in the document. */
import * as React from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';
import type { Job } from '../../gen/loam/jobs/v1/jobs_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { Log, found } from '../../model/log';
import { hasEnded } from '../../model/state';
import { count, pieces } from '../../model/words';
import { Button, Icon, Search } from '../bits';
import { useFace } from '../face';

const PAGE = 500;
const LOOK_MS = 700;
const LINE_HEIGHT = 18;

/** The log as it grows; read again while the run is live and on screen. */
function useLog(job: Job): { log: Log; error: string; isRead: boolean } {
  const { loam, isShown } = useFace();
  const [log] = React.useState(() => new Log());
  const [, again] = React.useReducer((times: number) => times + 1, 0);
  const [error, setError] = React.useState('');
  const [isRead, setRead] = React.useState(false);
  const isLive = !hasEnded(job);
  React.useEffect(() => {
    let isWanted = true;
    let isPutOff = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        let more = !document.hidden && isShown();
        isPutOff = !more;
        while (more && isWanted) {
          const page = await loam.call(Jobs.method.outputs, { jobId: job.id, after: log.after, limit: PAGE });
          if (!isWanted) {
            return;
          }
          if (page.outputs.length) {
            log.add(page.outputs, page.next);
            again();
          }
          more = page.more;
          setRead(true);
          setError('');
        }
      } catch (problem) {
        setError(problem instanceof Error ? problem.message : String(problem));
      }
      if (isWanted && (isLive || isPutOff)) {
        timer = setTimeout(() => void look(), LOOK_MS);
      }
    };
    void look();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [loam, log, job.id, isLive, isShown]);
  return { log, error, isRead };
}

export function LogView(props: { job: Job }): JSX.Element {
  const { job } = props;
  const { trans, actions } = useFace();
  const { log, error, isRead } = useLog(job);
  const isLive = !hasEnded(job);
  const [isFollowing, setFollowing] = React.useState(true);
  const [text, setText] = React.useState('');
  const [hit, setHit] = React.useState(0);
  const scroller = React.useRef<HTMLDivElement>(null);
  const lines = log.lines;
  const hits = React.useMemo(() => found(lines, text), [lines, text]);
  const at = hits.length ? hits[Math.min(hit, hits.length - 1)] : -1;
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    // A page that is not in front has no heights: measured then, the log would be elsewhere when it comes back.
    measureElement: (line, _, list) =>
      line.getBoundingClientRect().height || list.measurementsCache[Number(line.getAttribute('data-index'))]?.size || LINE_HEIGHT,
    overscan: 10
  });
  React.useEffect(() => {
    if (isFollowing && isLive && lines.length && !text) {
      virtual.scrollToIndex(lines.length - 1);
    }
  }, [virtual, isFollowing, isLive, lines, text]);
  React.useEffect(() => {
    if (at >= 0) {
      virtual.scrollToIndex(at, { align: 'center' });
    }
  }, [virtual, at]);
  const step = (by: number) => hits.length && setHit((Math.min(hit, hits.length - 1) + by + hits.length) % hits.length);
  const state = [
    trans._n('%1 line', '%1 lines', lines.length, count(lines.length)),
    ...(log.dropped ? [trans.__('%1 earlier ones not kept here', count(log.dropped))] : []),
    ...(isLive ? [] : [trans.__('ended')])
  ].join(', ');
  return (
    <section aria-label={trans.__('Log')}>
      <h2>
        {trans.__('Log')} <span className="jp-loam-sub">{state}</span>
        <span className="jp-loam-tools">
          <span className="jp-loam-search">
            <Icon name="search" />
            <Search
              label={trans.__('Search the log')}
              placeholder={trans.__('Search')}
              value={text}
              onChange={value => {
                setText(value);
                setHit(0);
              }}
              onKeyDown={event => event.key === 'Enter' && step(event.shiftKey ? -1 : 1)}
            />
            <span className="jp-loam-sub" role="status">
              {text ? (hits.length ? trans.__('%1 of %2', String(Math.min(hit, hits.length - 1) + 1), count(hits.length)) : trans.__('none')) : ''}
            </span>
          </span>
          <Button
            kind="small"
            label={trans.__('Follow')}
            pressed={isFollowing && isLive}
            disabled={!isLive}
            title={isLive ? trans.__('Keep the last line on screen') : trans.__('The run has ended')}
            onClick={() => setFollowing(!isFollowing)}
          />
          <Button
            kind="icon"
            icon="copy"
            label={trans.__('Copy the log')}
            onClick={() => actions.copy(lines.map(line => line.text).join('\n'))}
          />
        </span>
      </h2>
      <div
        ref={scroller}
        className="jp-loam-log"
        role="log"
        aria-label={trans.__('Log')}
        aria-live={isFollowing && isLive ? 'polite' : 'off'}
        tabIndex={0}
        style={{ height: Math.max(34, virtual.getTotalSize() + 12) }}
        onWheel={event => event.deltaY < 0 && setFollowing(false)}
      >
        <div style={{ height: virtual.getTotalSize(), position: 'relative' }}>
          {virtual.getVirtualItems().map(one => {
            const line = lines[one.index];
            return (
              <div
                key={one.key}
                ref={virtual.measureElement}
                data-index={one.index}
                className={`l ${line.kind === 'error' ? 'e' : line.kind === 'err' ? 'w' : ''}${one.index === at ? ' hit' : ''}`}
                style={{ transform: `translateY(${one.start}px)` }}
              >
                <Marked text={line.text} mark={text} />
              </div>
            );
          })}
        </div>
        {lines.length ? null : (
          <div className="jp-loam-sub jp-loam-nolines">
            {error || (isRead ? (isLive ? trans.__('Nothing printed yet.') : trans.__('Nothing was printed.')) : '…')}
          </div>
        )}
      </div>
    </section>
  );
}

/** A line with what was searched for marked. */
function Marked(props: { text: string; mark: string }): JSX.Element {
  const { text, mark } = props;
  const wanted = mark.toLowerCase();
  return (
    <bdi>
      {pieces(text || ' ', { most: 25_000 }).map((piece, place) =>
        piece.escaped ? (
          <span key={place} className="jp-loam-esc">
            {piece.text}
          </span>
        ) : wanted ? (
          <React.Fragment key={place}>{marked(piece.text, wanted)}</React.Fragment>
        ) : (
          piece.text
        )
      )}
    </bdi>
  );
}

function marked(text: string, wanted: string): React.ReactNode[] {
  const found: React.ReactNode[] = [];
  const lower = text.toLowerCase();
  let at = 0;
  for (let next = lower.indexOf(wanted); next >= 0 && found.length < 400; next = lower.indexOf(wanted, at)) {
    found.push(text.slice(at, next), <mark key={next}>{text.slice(next, next + wanted.length)}</mark>);
    at = next + wanted.length;
  }
  return [...found, text.slice(at)];
}
