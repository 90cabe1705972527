// Dialogs: the browser's own, which keep the focus inside and close with Escape.
import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { t } from "../words";

export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  foot?: ReactNode;
  wide?: boolean;
  className?: string;
  isPlain?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const cancel = (event: { preventDefault: () => void }) => {
    event.preventDefault();
    props.onClose();
  };
  const classes = [props.wide ? "is-wide" : "", props.className ?? ""].join(" ").trim();
  return (
    <dialog
      ref={element} className={classes} aria-labelledby={id} onCancel={cancel}
      onMouseDown={(event) => event.target === element.current && props.onClose()}
    >
      <div className="dialog">
        {props.isPlain ? <h2 id={id} className="unseen">{props.title}</h2> : (
          <div className="dialog-head">
            <h2 id={id} className="told">{props.title}</h2>
            <button type="button" className="button is-plain is-square" onClick={props.onClose} aria-label={t("Close")}><X /></button>
          </div>
        )}
        {props.isPlain ? props.children : <div className="dialog-body">{props.children}</div>}
        {props.foot ? <div className="dialog-foot">{props.foot}</div> : null}
      </div>
    </dialog>
  );
}
