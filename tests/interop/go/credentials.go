package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// security is TLS by a directory: mutual with ca.pem, cert.pem and key.pem, or with ca.pem and a token that each call
// shows; without a directory, clear text.
func security(directory string) ([]grpc.DialOption, error) {
	if directory == "" {
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	authority, err := os.ReadFile(filepath.Join(directory, "ca.pem"))
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: known}
	shown := token(filepath.Join(directory, "token"))
	if _, err := os.Stat(string(shown)); err == nil {
		overTLS := grpc.WithTransportCredentials(credentials.NewTLS(config))
		return []grpc.DialOption{overTLS, grpc.WithPerRPCCredentials(shown)}, nil
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem"))
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{own}
	return []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}, nil
}

// token is a file that is read again for each call: it may have been renewed.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	said, err := os.ReadFile(string(t))
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(said))}, err
}

func (t token) RequireTransportSecurity() bool { return true }
