// A screen: its title in the tab and in the bar, its heading, its actions.
import { Fragment, type ReactNode } from "react";
import { createPortal } from "react-dom";
import { Link } from "wouter";
import { useTabSign } from "./failing";

export interface Crumb {
  name: string;
  path?: string;
}

export function Screen(props: { crumbs: Crumb[]; heading?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  const last = props.crumbs[props.crumbs.length - 1];
  useTabSign(last?.name ?? "");
  const bar = document.getElementById("crumbs");
  return (
    <>
      {bar ? createPortal(<Crumbs crumbs={props.crumbs} />, bar) : null}
      <div className="screen-head">
        <h1 className="told">{props.heading ?? last?.name}</h1>
        {props.actions ? <div className="actions">{props.actions}</div> : null}
      </div>
      {props.children}
    </>
  );
}

function Crumbs({ crumbs }: { crumbs: Crumb[] }) {
  return (
    <>
      {crumbs.map((crumb, index) => (
        <Fragment key={`${crumb.name}-${index}`}>
          {index > 0 ? <span aria-hidden="true">/</span> : null}
          {crumb.path ? <Link href={crumb.path} className="cut">{crumb.name}</Link> : <span className="cut" aria-current="page">{crumb.name}</span>}
        </Fragment>
      ))}
    </>
  );
}
