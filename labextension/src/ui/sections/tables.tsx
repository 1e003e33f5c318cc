/** Tables of the catalog by namespace, each with the age of its last commit. A tree: arrows open, close and move. */
import * as React from 'react';
import type { Table } from '../../gen/loam/jobs/v1/service_pb';
import { Jobs } from '../../gen/loam/jobs/v1/service_pb';
import { count, plain } from '../../model/words';
import { Icon, Text, When, useNow } from '../bits';
import { useFace } from '../face';
import { onKeys } from '../keys';
import type { Section } from '../section';
import { Note, useRead, useTicks } from '../section';

const MOST = 500;

function Summary(): JSX.Element {
  return <>{useFace().trans.__('catalog')}</>;
}

interface Node {
  key: string;
  level: 1 | 2;
  space: string;
  table?: Table;
  size?: number;
}

function Body(): JSX.Element {
  const { loam, trans, actions } = useFace();
  const { value, error } = useRead(() => loam.call(Jobs.method.tables, {}), useTicks(3_000));
  const [closed, setClosed] = React.useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = React.useState('');
  const nowMs = useNow(false);
  const prefix = React.useId();
  const nodes = nodesOf(value?.tables ?? [], closed);
  const here = Math.max(
    0,
    nodes.findIndex(node => node.key === active)
  );
  const setOpen = (space: string, isOpen: boolean) => {
    const next = new Set(closed);
    if (isOpen) {
      next.delete(space);
    } else {
      next.add(space);
    }
    setClosed(next);
  };
  const act = (node: Node) =>
    node.table ? actions.openTable(`${node.space}.${node.table.name}`) : setOpen(node.space, closed.has(node.space));
  if (error || !nodes.length) {
    const nothing = value?.state === 'stopped' ? trans.__('The catalog starts with the first run.') : trans.__('No tables yet.');
    return <Note>{error ? <Text value={error} /> : value ? nothing : '…'}</Note>;
  }
  const node = nodes[here];
  const moves: Record<string, () => void> = {
    ArrowDown: () => setActive(nodes[Math.min(nodes.length - 1, here + 1)].key),
    ArrowUp: () => setActive(nodes[Math.max(0, here - 1)].key),
    Home: () => setActive(nodes[0].key),
    End: () => setActive(nodes[nodes.length - 1].key),
    ArrowRight: () => (node.level === 1 ? setOpen(node.space, true) : undefined),
    ArrowLeft: () => (node.level === 1 ? setOpen(node.space, false) : setActive(node.space)),
    Enter: () => act(node)
  };
  return (
    <div
      role="tree"
      aria-label={trans.__('Tables')}
      tabIndex={0}
      className="jp-loam-tree"
      aria-activedescendant={`${prefix}${nodes[here].key}`}
      onKeyDown={onKeys(moves)}
    >
      {nodes.slice(0, MOST).map((node, place) => (
        <div
          key={node.key}
          id={`${prefix}${node.key}`}
          className={`jp-loam-line${node.level === 2 ? ' deep' : ''}${place === here ? ' is-active' : ''}`}
          role="treeitem"
          aria-level={node.level}
          aria-expanded={node.level === 1 ? !closed.has(node.space) : undefined}
          aria-selected={place === here}
          aria-label={node.table ? plain(node.table.name) : `${plain(node.space)}, ${node.size}`}
          onClick={() => {
            setActive(node.key);
            act(node);
          }}
        >
          <Icon name={node.table ? 'table' : closed.has(node.space) ? 'right' : 'down'} />
          <span className="jp-loam-cut">
            <Text value={node.table?.name ?? node.space} />
          </span>
          {node.table ? (
            <When className="jp-loam-sub" atMs={Number(node.table.committedAtMs)} nowMs={nowMs} />
          ) : (
            <span className="jp-loam-sub">{count(node.size ?? 0)}</span>
          )}
        </div>
      ))}
      {nodes.length > MOST ? <Note>{trans.__('%1 shown, more exist', String(MOST))}</Note> : null}
    </div>
  );
}

function nodesOf(tables: readonly Table[], closed: ReadonlySet<string>): Node[] {
  const spaces = new Map<string, Table[]>();
  for (const table of tables) {
    spaces.set(table.namespace, [...(spaces.get(table.namespace) ?? []), table]);
  }
  return [...spaces].flatMap(([space, members]) => [
    { key: space, level: 1 as const, space, size: members.length },
    ...(closed.has(space)
      ? []
      : members.map(table => ({ key: `${space}.${table.name}`, level: 2 as const, space, table })))
  ]);
}

export const tables: Section = {
  id: 'tables',
  title: ({ trans }) => trans.__('Tables'),
  Summary,
  Body,
  isOpen: true
};
