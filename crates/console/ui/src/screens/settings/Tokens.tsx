// Access tokens: made, shown once, revoked.
import { useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { type FormEvent, useState } from "react";
import { change } from "../../api/client";
import { useTokens } from "../../api/queries";
import type { Role, Token } from "../../api/types";
import { Dialog } from "../../parts/Dialog";
import { Bones, CopyButton } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { complain, say } from "../../parts/Toasts";
import { Time } from "../../time/Time";
import { t } from "../../words";
import { Choice, TextField } from "../editor/Field";

export function Tokens() {
  const tokens = useTokens(true);
  const [open, setOpen] = useState<"new" | Token | null>(null);
  return (
    <section className="card">
      <div className="card-head"><h2>{t("Access tokens")}</h2><span className="aside"><button type="button" className="button is-small is-main" onClick={() => setOpen("new")}><Plus aria-hidden="true" />{t("New token")}</button></span></div>
      {tokens.error ? <div className="card-body"><Problem error={tokens.error} /></div> : null}
      {!tokens.data && !tokens.error ? <Bones rows={3} /> : null}
      <div className="table-box" tabIndex={0} role="group" aria-label={t("Access tokens")}>
        <table>
          <thead><tr><th scope="col">{t("Name")}</th><th scope="col">{t("Role")}</th><th scope="col">{t("Apps")}</th><th scope="col">{t("Made")}</th><th scope="col">{t("Expires")}</th><th scope="col"><span className="unseen">{t("Actions")}</span></th></tr></thead>
          <tbody>
            {tokens.data?.items.map((token) => (
              <tr key={token.id}>
                <td className="strong told">{token.name}</td><td>{token.role}</td><td className="muted told">{token.apps.join(", ")}</td>
                <td className="muted"><Time at={token.created_at} /></td><td className="muted">{token.expires_at ? <Time at={token.expires_at} /> : t("never")}</td>
                <td className="right"><button type="button" className="button is-small is-danger" onClick={() => setOpen(token)}>{t("Revoke")}</button></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {open === "new" ? <NewToken onClose={() => setOpen(null)} /> : null}
      {open !== null && open !== "new" ? <Revoke token={open} onClose={() => setOpen(null)} /> : null}
    </section>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [apps, setApps] = useState("*");
  const [expires, setExpires] = useState("");
  const [made, setMade] = useState("");
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      const wanted = { name, role, apps: apps.split(",").map((app) => app.trim()).filter(Boolean), ...(expires ? { expires_at: `${expires}:00Z` } : {}) };
      const answer = await change<{ token: string }>("POST", "/tokens", wanted);
      setMade(answer.token);
      void queries.invalidateQueries({ queryKey: ["tokens"] });
    } catch (caught) {
      setError(caught);
    }
  };
  if (made) {
    return (
      <Dialog title={t("The token, shown this once")} onClose={onClose} foot={<button type="button" className="button is-main" onClick={onClose}>{t("I have it")}</button>}>
        <div className="button-row"><code className="secret grow">{made}</code><CopyButton text={made} /></div>
        <p className="muted">{t("Only a sum of it is kept; nobody can show it again.")}</p>
      </Dialog>
    );
  }
  return (
    <Dialog title={t("New token")} onClose={onClose} foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="submit" form="token-form" className="button is-main">{t("Create")}</button></>}>
      <form id="token-form" onSubmit={submit} className="column">
        <TextField label={t("Name")} value={name} onChange={setName} required hint={t("who or what it is for")} />
        <Choice label={t("Role")} value={role} onChange={(next) => setRole(next as Role)} options={[["viewer", t("viewer: look")], ["operator", t("operator: start, stop, run, cancel")], ["editor", t("editor: make, change and delete jobs")], ["admin", t("admin: everything")]]} />
        <TextField label={t("Apps")} value={apps} onChange={setApps} hint={t("with commas between them; * is all")} />
        <div className="field"><label htmlFor="expires">{t("Expires, UTC")}</label><input id="expires" className="input" type="datetime-local" value={expires} onChange={(event) => setExpires(event.target.value)} /></div>
        <Problem error={error} />
      </form>
    </Dialog>
  );
}

function Revoke({ token, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const go = async () => {
    try {
      await change("DELETE", `/tokens/${token.id}`);
      say(t("{name} opens nothing any more", { name: token.name }));
    } catch (error) {
      complain(error);
    }
    void queries.invalidateQueries({ queryKey: ["tokens"] });
    onClose();
  };
  return (
    <Dialog title={t("Revoke {name}", { name: token.name })} onClose={onClose} foot={<><button type="button" className="button" onClick={onClose}>{t("Cancel")}</button><button type="button" className="button is-main is-danger" onClick={() => void go()}>{t("Revoke")}</button></>}>
      <p>{t("Whoever uses it is refused from now on; other nodes follow within seconds.")}</p>
    </Dialog>
  );
}
