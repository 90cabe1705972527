// Signing in with a token, on a page of its own or over what a person was doing when the session ended.
import { type FormEvent, useState } from "react";
import { signIn } from "../api/session";
import { t } from "../words";
import { Brand } from "./Brand";

export function SignInPage() {
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <h1 className="brand"><Brand />Punctual</h1>
        <SignInForm />
        <p className="small muted">
          {t("The first start of a node prints an admin token and keeps it in its data folder, in the file admin-token.")}
        </p>
      </div>
    </main>
  );
}

export function SignInForm() {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setFault("");
    try {
      const result = await signIn(token.trim());
      if (result === "refused") setFault(t("This token opens nothing. It may be mistyped, revoked or expired."));
      if (result === "throttled") setFault(t("Too many failed attempts. Wait a few minutes."));
    } catch {
      setFault(t("The server does not answer. Look whether it runs and can be reached."));
    }
    setBusy(false);
  };
  return (
    <form onSubmit={submit} style={{ display: "grid", gap: 12 }}>
      <div className="field">
        <label htmlFor="token">{t("Access token")}</label>
        <input
          id="token" className="input mono" type="password" autoComplete="current-password" autoFocus required spellCheck={false}
          value={token} onChange={(event) => setToken(event.target.value)} aria-invalid={fault !== ""} aria-describedby="token-fault"
        />
        <div id="token-fault" className="fault" role="alert">{fault}</div>
      </div>
      <button type="submit" className="button is-main" disabled={isBusy || token.trim() === ""}>{t("Sign in")}</button>
    </form>
  );
}
